SELECT
  *
FROM (
  SELECT
    "t5"."document_id",
    "t5"."uri",
    "t5"."title",
    "t5"."kind",
    "t5"."format",
    NULLIF(ARRAY_LENGTH("t5"."page_starts"), 0) AS "pages",
    COALESCE("t4"."chunks", 0) AS "chunks",
    "t5"."size",
    "t5"."revision",
    MAKE_TIMESTAMP(EPOCH_US("t5"."published_at")) AS "published_at",
    "t5"."date_origin",
    "t5"."status",
    "t5"."error",
    "t5"."unread"
  FROM (
    SELECT
      *
    FROM "documents" AS "t0"
    WHERE
      "t0"."status" <> 'superseded'
  ) AS "t5"
  LEFT OUTER JOIN (
    SELECT
      "t1"."document_id",
      "t1"."revision",
      COUNT(*) AS "chunks"
    FROM "document_chunks" AS "t1"
    GROUP BY
      1,
      2
  ) AS "t4"
    ON "t5"."document_id" = "t4"."document_id" AND "t5"."revision" = "t4"."revision"
) AS "t6"
ORDER BY
  "t6"."uri" ASC,
  "t6"."status" ASC
