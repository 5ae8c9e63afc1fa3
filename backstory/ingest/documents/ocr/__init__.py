"""Text recognition: of images, and of pages without text."""
