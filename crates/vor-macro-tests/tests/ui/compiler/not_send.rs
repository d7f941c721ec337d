//! A future that holds something `!Send` across `.await` is refused for that, not for its scope.

use std::rc::Rc;

#[vor::profile]
async fn shared() -> u32 {
    let count = Rc::new(1);
    std::future::ready(()).await;
    *count
}

fn send<T: Send>(_: T) {}

fn main() {
    send(shared());
}
