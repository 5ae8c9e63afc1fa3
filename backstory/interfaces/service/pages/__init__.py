"""The web page of the service: sign in, ask, read the cited passages, and look after the documents."""
