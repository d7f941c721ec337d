//! Every option is accepted, alone and together, and a re-exported facade is found.

#![deny(warnings)]

mod telemetry {
    pub use vor as tracer;
}

use telemetry::tracer;

#[vor::profile()]
fn none() {}

#[vor::profile(name = "named, with: anything")]
fn named() {}

#[vor::profile(args())]
fn no_arguments() {}

#[vor::profile(args(flag, small, large, real, text))]
fn arguments(flag: bool, small: u8, large: i64, real: f32, text: &str) -> usize {
    usize::from(flag) + usize::from(small) + large as usize + real as usize + text.len()
}

#[vor::profile(args(len = data.len(), first = data[0],),)]
fn expressions(data: &[u32]) -> u32 {
    data[0]
}

#[vor::profile(args(x, y))]
fn patterns((x, _): (u32, u32), Point { y }: Point) -> u32 {
    x + y
}

struct Point {
    y: u32,
}

#[tracer::profile(crate = tracer)]
fn renamed() {}

#[vor::profile(
    crate = crate::attributes::options::telemetry::tracer,
    category = "io",
    color = 0xff8800,
    args(x),
    name = "all"
)]
fn together(x: u32) -> u32 {
    x
}

#[vor::profile(crate = ::vor, color = 255)]
fn absolute() {}

struct Owner;

#[tracer::all_functions(crate = crate::attributes::options::tracer)]
impl Owner {
    fn method(&self) {}

    async fn later(&self) {}
}

#[test]
fn options_are_accepted() {
    none();
    named();
    no_arguments();
    assert_eq!(arguments(true, 1, 1, 1.0, "x"), 5);
    assert_eq!(expressions(&[3]), 3);
    assert_eq!(patterns((1, 2), Point { y: 3 }), 4);
    renamed();
    assert_eq!(together(1), 1);
    absolute();
    Owner.method();
    let _unpolled = Owner.later();
}
