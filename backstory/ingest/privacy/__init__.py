"""Real names -> pseudonyms: finds names in texts, replaces them, and checks that none is left."""
