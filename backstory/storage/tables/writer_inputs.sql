SELECT
  *
FROM (
  SELECT
    "t3"."window_id",
    "t3"."conversation_id",
    "t3"."partition",
    MAKE_TIMESTAMP(EPOCH_US("t3"."started_at")) AS "started_at",
    MAKE_TIMESTAMP(EPOCH_US("t3"."ended_at")) AS "ended_at",
    "t3"."timezone",
    "t4"."local_started_at",
    "t4"."local_ended_at",
    "t4"."language",
    COALESCE("t4"."messages", '') AS "messages",
    COALESCE("t4"."said_count", 0) AS "message_count",
    "t3"."token_count" AS "message_tokens",
    COALESCE("t4"."cited_text", '') AS "context",
    COALESCE("t4"."cited_token_count", 0) AS "context_tokens",
    "t4"."max_tokens",
    COALESCE("t6"."citations", []) AS "citations",
    CASE
      WHEN "t4"."window_id" IS NULL
      THEN 'not_made'
      WHEN "t4"."said_count" = 0
      THEN 'no_messages'
      WHEN "t4"."kept_count" > 0
      THEN 'write'
      ELSE "t4"."status"
    END AS "use",
    CASE
      WHEN "t4"."window_id" IS NULL
      THEN 'the context is not made yet; run backstory run'
      WHEN "t4"."said_count" = 0
      THEN 'no message of the window has a text'
      WHEN "t4"."kept_count" > 0
      THEN CAST(NULL AS TEXT)
      WHEN "t4"."status" = 'no_hits'
      THEN 'no document serves the window'
      WHEN "t4"."status" = 'disabled'
      THEN 'rag.enabled is false'
      ELSE "t4"."error"
    END AS "reason",
    "t4"."status",
    "t4"."error",
    "t4"."verdict",
    "t4"."uncovered_topics",
    "t4"."embedder_id",
    "t4"."index_version",
    "t4"."settings_hash"
  FROM "windows" AS "t3"
  LEFT OUTER JOIN "window_contexts" AS "t4"
    ON "t3"."window_id" = "t4"."window_id"
  LEFT OUTER JOIN (
    SELECT
      "t2"."window_id",
      ARRAY_AGG(
        {'number': "t2"."citation", 'document_id': "t2"."document_id", 'revision': "t2"."revision", 'title': "t2"."title", 'uri': "t2"."uri", 'page_start': "t2"."page_start", 'page_end': "t2"."page_end", 'published_at': MAKE_TIMESTAMP(EPOCH_US("t2"."published_at")), 'tags': "t2"."tags", 'passage': "t2"."passage", 'passage_start': "t2"."passage_start", 'passage_end': "t2"."passage_end", 'serves': "t2"."serves"} ORDER BY "t2"."rank" ASC
      ) FILTER(WHERE
        NOT {'number': "t2"."citation", 'document_id': "t2"."document_id", 'revision': "t2"."revision", 'title': "t2"."title", 'uri': "t2"."uri", 'page_start': "t2"."page_start", 'page_end': "t2"."page_end", 'published_at': MAKE_TIMESTAMP(EPOCH_US("t2"."published_at")), 'tags': "t2"."tags", 'passage': "t2"."passage", 'passage_start': "t2"."passage_start", 'passage_end': "t2"."passage_end", 'serves': "t2"."serves"} IS NULL) AS "citations"
    FROM "contexts" AS "t2"
    GROUP BY
      1
  ) AS "t6"
    ON "t3"."window_id" = "t6"."window_id"
) AS "t7"
ORDER BY
  "t7"."started_at" ASC,
  "t7"."window_id" ASC
