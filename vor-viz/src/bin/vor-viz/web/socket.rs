//! The stream of a running program: a WebSocket whose messages are a capture.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{ArrayBuffer, Function, Promise, Uint8Array};
use vor_viz::replay::Arriving;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{BinaryType, CloseEvent, MessageEvent, WebSocket};

/// Most bytes of a stream that a page keeps; then it ends the stream.
const MAX_BYTES: usize = 1 << 30;

/// An open connection. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Socket {
    socket: WebSocket,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_close: Closure<dyn FnMut(CloseEvent)>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.socket.set_onmessage(None);
        self.socket.set_onclose(None);
        // It may be closed already.
        let _ = self.socket.close();
    }
}

/// Returns whether an address is that of a stream.
pub(super) fn is_stream(address: &str) -> bool {
    address.starts_with("ws://") || address.starts_with("wss://")
}

/// Connects to a program, and returns when the capture has begun. `changed` is called for whatever
/// arrives later. The error is a short text.
pub(super) async fn connect(
    address: &str,
    changed: impl Fn() + 'static,
) -> Result<(Arriving, Socket), String> {
    let socket = WebSocket::new(address).map_err(|_| "it is no address of a WebSocket")?;
    socket.set_binary_type(BinaryType::Arraybuffer);
    let bytes = Arriving::default();
    // Called when the capture has begun, or cannot begin.
    let waiting: Rc<RefCell<Option<(Function, Function)>>> = Rc::default();
    let begun = Promise::new(&mut |resolve, reject| {
        *waiting.borrow_mut() = Some((resolve, reject));
    });
    let (arriving, waits, sender) = (bytes.clone(), Rc::clone(&waiting), socket.clone());
    let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
        let Ok(buffer) = message.data().dyn_into::<ArrayBuffer>() else {
            return;
        };
        if arriving.len() > MAX_BYTES {
            // The bytes that have arrived stay.
            let _ = sender.close();
            return;
        }
        arriving.push(&Uint8Array::new(&buffer).to_vec());
        if let Some((begun, _)) = waits.borrow_mut().take() {
            let _ = begun.call0(&JsValue::NULL);
        }
        changed();
    });
    let on_close = Closure::<dyn FnMut(CloseEvent)>::new(move |_: CloseEvent| {
        if let Some((_, failed)) = waiting.borrow_mut().take() {
            let _ = failed.call0(&JsValue::NULL);
        }
    });
    socket.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    socket.set_onclose(Some(on_close.as_ref().unchecked_ref()));
    let socket = Socket {
        socket,
        _on_message: on_message,
        _on_close: on_close,
    };
    // A browser does not tell a page why a connection failed.
    JsFuture::from(begun).await.map_err(|_| {
        "no program answers, or it does not allow this page (VOR_LISTEN_ORIGIN)".to_owned()
    })?;
    Ok((bytes, socket))
}
