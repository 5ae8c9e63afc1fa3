"""LlamaIndex, Haystack and LangChain beside Backstory, on the same sets with the same vectors.

``python -m benchmarks.peers DIR`` prints one table. Every peer has a folder with its pinned requirements and a
``run.py``, which runs in a separate environment without Backstory's packages.
"""
