"""Functions of strings: encodings, languages, chunking, the formats of prompts."""
