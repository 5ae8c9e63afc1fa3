"""A window -> query chunks -> hits -> decisions -> the context of its writer."""
