"""The store that workers on several machines share: objects named by their hash, and one manifest that lists them."""
