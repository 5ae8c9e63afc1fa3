-- One row is one document, by path. Its time is a plain one in UTC, as those of writer_inputs.
SELECT
  d.document_id,
  d.uri,
  d.title,
  d.kind,
  d.format,
  nullif(len(d.page_starts), 0) AS pages,
  coalesce(c.chunks, 0) AS chunks,
  d.size,
  d.revision,
  make_timestamp(epoch_us(d.published_at)) AS published_at,
  d.date_origin,
  d.status,
  d.error,
  d.unread
FROM documents AS d
LEFT JOIN (
  SELECT document_id, revision, count(*) AS chunks FROM document_chunks GROUP BY document_id, revision
) AS c ON c.document_id = d.document_id AND c.revision = d.revision
WHERE d.status <> 'superseded'
ORDER BY d.uri, d.status
