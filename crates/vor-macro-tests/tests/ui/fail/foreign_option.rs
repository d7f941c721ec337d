// Options of hotpath, fastrace and `tracing`: the error says what to write instead.

#[vor::profile(label = "query")]
fn label() {}

#[vor::profile(log = true)]
fn log() {}

#[vor::profile(properties = { "id": "{id}" })]
fn properties(_id: u64) {}

#[vor::profile(fields(id))]
fn fields(_id: u64) {}

#[vor::profile(enter_on_poll = true)]
async fn enter_on_poll() {}

#[vor::profile(short_name = true)]
fn short_name() {}

#[vor::profile(future = true)]
async fn future() {}

#[vor::profile(impl_type = "Grid")]
fn impl_type() {}

fn main() {}
