"""Quality of retrieval and of posts against labelled data."""
