#[vor::profile(nmae = "x")]
fn unknown() {}

#[vor::profile(name = "x", name = "y")]
fn twice() {}

#[vor::profile(name = decode)]
fn not_text() {}

#[vor::profile(name = "")]
fn empty() {}

#[vor::profile(color = 0x1ffffff)]
fn too_large() {}

#[vor::profile(category)]
fn no_value() {}

#[vor::profile("decode")]
fn bare_text() {}

struct Frame;

#[vor::all_functions(name = "frame", crate = vor)]
impl Frame {
    fn decode(&self) {}
}

#[vor::all_functions(prefix = "frame")]
impl Frame {
    fn encode(&self) {}
}

fn main() {
    unknown();
    Frame.decode();
    Frame.encode();
}
