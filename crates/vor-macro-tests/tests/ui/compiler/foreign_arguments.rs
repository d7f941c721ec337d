// Several values without names: the error shows how to name them.

fn load(path: &str, bytes: usize) {
    vor::profile_function!(path, bytes);
    vor::profile_scope!("read", path, bytes);
    vor::profile_scope_if!(bytes > 0, "parse", path, bytes);
}

fn main() {
    load("a", 1);
}
