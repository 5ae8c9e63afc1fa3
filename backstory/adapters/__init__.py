"""The library by other names: the interfaces of programs that people have already, each a thin face of one file."""
