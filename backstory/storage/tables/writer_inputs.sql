-- One row is one window, with everything that a writer's program reads, by time.
-- A reader's session may be in any zone, and DuckDB's Python client needs a further package to return a time with one:
-- so times are made plain ones in UTC by functions that know no zone.
SELECT
  w.window_id,
  w.conversation_id,
  w.partition,
  make_timestamp(epoch_us(w.started_at)) AS started_at,
  make_timestamp(epoch_us(w.ended_at)) AS ended_at,
  w.timezone,
  c.local_started_at,
  c.local_ended_at,
  c.language,
  coalesce(c.messages, '') AS messages,
  coalesce(c.said_count, 0) AS message_count,
  w.token_count AS message_tokens,
  coalesce(c.cited_text, '') AS context,
  coalesce(c.cited_token_count, 0) AS context_tokens,
  c.max_tokens,
  coalesce(p.citations, []) AS citations,
  CASE
    WHEN c.window_id IS NULL THEN 'not_made'
    WHEN c.said_count = 0 THEN 'no_messages'
    WHEN c.kept_count > 0 THEN 'write'
    ELSE c.status
  END AS use,
  CASE
    WHEN c.window_id IS NULL THEN 'the context is not made yet; run backstory run'
    WHEN c.said_count = 0 THEN 'no message of the window has a text'
    WHEN c.kept_count > 0 THEN NULL
    WHEN c.status = 'no_hits' THEN 'no document serves the window'
    WHEN c.status = 'disabled' THEN 'rag.enabled is false'
    ELSE c.error
  END AS reason,
  c.status,
  c.error,
  c.verdict,
  c.uncovered_topics,
  c.embedder_id,
  c.index_version,
  c.settings_hash
FROM windows AS w
LEFT JOIN window_contexts AS c ON c.window_id = w.window_id
LEFT JOIN (
  SELECT
    window_id,
    list(
      {
        number: citation,
        document_id: document_id,
        revision: revision,
        title: title,
        uri: uri,
        page_start: page_start,
        page_end: page_end,
        published_at: make_timestamp(epoch_us(published_at)),
        tags: tags,
        passage: passage,
        passage_start: passage_start,
        passage_end: passage_end,
        serves: serves
      } ORDER BY rank
    ) AS citations
  FROM contexts
  GROUP BY window_id
) AS p ON p.window_id = w.window_id
ORDER BY started_at, w.window_id
