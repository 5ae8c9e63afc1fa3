-- Dagster's tables have a database of their own.
CREATE DATABASE dagster;
