//! Async functions keep the type of their output, their borrows and `Send`.

#![deny(warnings)]
#![allow(unsafe_code, reason = "attributes accept unsafe functions")]

use std::error::Error;
use std::fmt::Display;
use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[vor::profile]
async fn length(text: &str) -> usize {
    ready(text.len()).await
}

#[vor::profile]
async fn parse(text: &str) -> Result<u32, Box<dyn Error + Send + Sync>> {
    if text.is_empty() {
        return Err("no text".into());
    }
    let number = text.parse()?;
    Ok(ready(number).await)
}

#[vor::profile]
async fn choose(first: bool) -> Box<dyn Display + Send> {
    if first {
        return Box::new(1);
    }
    Box::new("two")
}

#[vor::profile]
async fn default_output(stop: bool) {
    if stop {
        return Default::default();
    }
    ready(()).await
}

#[vor::profile]
async fn opaque(limit: u32) -> impl Iterator<Item = u32> {
    0..ready(limit).await
}

#[vor::profile]
async fn generic<T: Clone, const N: usize>(value: T) -> [T; N] {
    std::array::from_fn(|_| value.clone())
}

#[vor::profile]
async unsafe fn read(pointer: &u8) -> u8 {
    *ready(pointer).await
}

#[vor::profile(name = "sum", category = "math", color = 0x00ff00, args(x, double = x * 2))]
async fn sum(mut x: u32, (y, _): (u32, u32)) -> u32 {
    x += ready(y).await;
    x
}

#[vor::profile]
async fn never() -> ! {
    std::future::pending().await
}

macro_rules! define {
    ($vis:vis $name:ident, $output:ty, $path:path, $value:expr, $text:literal, $body:block) => {
        #[vor::profile(name = $text, args(twice = $value * 2), crate = $path)]
        $vis async fn $name() -> $output $body
    };
}

define!(pub(crate) defined, Vec<&'static str>, ::vor, 1 + 2, "defined", { vec!["x"] });

struct Connection {
    sent: Vec<String>,
}

#[vor::all_functions]
impl Connection {
    async fn send(&mut self, text: &str) -> &mut Self {
        self.sent.push(text.to_owned());
        ready(()).await;
        self
    }

    async fn close(self) -> usize {
        self.sent.len()
    }
}

trait Service {
    fn call(&self, x: u32) -> impl Future<Output = u32> + Send;
}

struct Doubler;

#[vor::all_functions]
impl Service for Doubler {
    async fn call(&self, x: u32) -> u32 {
        ready(x * 2).await
    }
}

fn send<F: Future + Send>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return output;
        }
    }
}

#[test]
fn async_functions_keep_their_output() {
    assert_eq!(send(length("four")), 4);
    assert_eq!(send(parse("4")).ok(), Some(4));
    assert_eq!(
        send(parse("")).map_err(|error| error.to_string()),
        Err("no text".to_owned())
    );
    assert!(send(parse("x")).is_err());
    assert_eq!(
        send(choose(true)).to_string() + &send(choose(false)).to_string(),
        "1two"
    );
    send(default_output(true));
    send(default_output(false));
    assert_eq!(send(opaque(3)).sum::<u32>(), 3);
    assert_eq!(send(generic::<_, 2>("x")), ["x", "x"]);
    // SAFETY: the function asks for nothing.
    assert_eq!(send(unsafe { read(&1) }), 1);
    assert_eq!(send(sum(1, (2, 3))), 3);
    let _unpolled = never();
    assert_eq!(send(defined()), ["x"]);
    let mut connection = Connection { sent: Vec::new() };
    send(async { connection.send("a").await.send("b").await.sent.len() });
    assert_eq!(send(connection.close()), 2);
    assert_eq!(send(Doubler.call(2)), 4);
}
