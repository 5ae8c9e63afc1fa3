fn main() {}
