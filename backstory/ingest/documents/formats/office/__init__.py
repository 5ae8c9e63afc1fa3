"""Files of office programs and e-books: ZIP files of XML parts, which are checked before anything reads them."""
