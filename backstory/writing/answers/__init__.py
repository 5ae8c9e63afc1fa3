"""Answers to questions: what a question is, what of the documents answers it, and the check of what is cited."""
