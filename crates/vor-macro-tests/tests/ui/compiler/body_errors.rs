//! A mistake in the body of a measured function is reported where it stands.

#[vor::profile]
fn wrong_type(x: u32) -> u32 {
    x.to_string()
}

#[vor::profile]
async fn wrong_output() -> u32 {
    if true {
        return "early";
    }
    "late"
}

#[vor::profile]
fn unknown_name() -> u32 {
    missing + 1
}

struct Text;

#[vor::all_functions]
impl Text {
    fn moved(text: String) -> (String, String) {
        (text, text)
    }
}

fn main() {}
