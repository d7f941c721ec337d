//! Selection of captures in a browser: by drag and drop, or by address.
//!
//! Both are asynchronous: a result is put into an inbox, and the next pass takes it from there. A
//! newer choice replaces a pending one, whose result is then ignored.

use std::cell::RefCell;
use std::rc::Rc;

use egui::{Key, RichText, TextEdit, Ui};
use js_sys::{ArrayBuffer, Uint8Array};
use vor_viz::replay::{Arriving, ReplayState};
use vor_viz::theme::space;
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use super::socket::{self, Socket};

/// Captures that were opened together, or a one-line error.
pub(crate) type Opened = Result<Vec<ReplayState>, String>;

/// The names and bytes of captures, or a one-line error.
type Files = Result<Vec<(String, Bytes)>, String>;

/// The bytes of a capture.
#[derive(Debug)]
enum Bytes {
    All(Vec<u8>),
    /// Those of a running program, which go on while the socket is open.
    Arriving(Arriving, Socket),
}

/// Maximum number of captures that are shown together.
const MAX_SHOWN: usize = 2;

/// The part of the viewer that opens captures.
#[derive(Debug)]
pub(crate) struct Chooser {
    inbox: Rc<RefCell<Inbox>>,
    /// The text in the address field.
    typed: String,
    /// The connections of the captures that are shown.
    sockets: Vec<Socket>,
}

#[derive(Debug, Default)]
struct Inbox {
    /// Number of the newest choice.
    choice: u64,
    /// Description of the pending choice.
    awaited: Option<String>,
    arrived: Option<Files>,
}

impl Chooser {
    /// Makes a chooser that begins to fetch the captures at the given addresses.
    pub(crate) fn new(context: &egui::Context, addresses: Vec<String>) -> Self {
        let mut chooser = Self {
            inbox: Rc::default(),
            typed: addresses.first().cloned().unwrap_or_default(),
            sockets: Vec::new(),
        };
        if !addresses.is_empty() {
            chooser.fetch(context, addresses);
        }
        chooser
    }

    /// Does nothing: a page does not store recent captures.
    pub(crate) fn note(&mut self, _: &[ReplayState]) {}

    /// Returns whether no choice is pending.
    pub(crate) fn is_idle(&self) -> bool {
        let inbox = self.inbox.borrow();
        inbox.awaited.is_none() && inbox.arrived.is_none()
    }

    /// Opens arrived captures, and begins to read files that were dropped on the page since the
    /// last pass.
    pub(crate) fn begin_pass(&mut self, ui: &Ui) -> Option<Opened> {
        let dropped = ui.input(|input| {
            let files = input.raw.dropped_files.iter().take(MAX_SHOWN);
            files.cloned().collect::<Vec<_>>()
        });
        if !dropped.is_empty() {
            let names = dropped.iter().map(|file| file.path().display().to_string());
            let names: Vec<_> = names.collect();
            self.await_files(ui.ctx(), &names.join(" and "), async move {
                let mut files = Vec::new();
                for (file, name) in dropped.iter().zip(names) {
                    let bytes = file.bytes_async().await;
                    let bytes =
                        bytes.map_err(|error| format!("{name}: cannot be read: {error}"))?;
                    files.push((name, Bytes::All(bytes)));
                }
                Ok(files)
            });
        }
        let arrived = self.inbox.borrow_mut().arrived.take()?;
        Some(arrived.and_then(|files| {
            let mut sockets = Vec::new();
            let open = |(name, bytes)| {
                let opened = match bytes {
                    Bytes::All(bytes) => ReplayState::from_bytes(bytes, name),
                    Bytes::Arriving(bytes, socket) => {
                        sockets.push(socket);
                        ReplayState::arriving(&bytes, name)
                    }
                };
                opened.map_err(|error| error.to_string())
            };
            let opened = files.into_iter().map(open).collect::<Opened>();
            // Those of earlier captures close.
            self.sockets = sockets;
            opened
        }))
    }

    fn fetch(&mut self, context: &egui::Context, addresses: Vec<String>) {
        // The address of a stream may have a token.
        let shown = addresses
            .iter()
            .map(|address| match socket::is_stream(address) {
                true => without_query(address),
                false => address,
            });
        let names = shown.collect::<Vec<_>>().join(" and ");
        let repaints = context.clone();
        self.await_files(context, &names, async move {
            let mut files = Vec::new();
            for address in addresses.iter().take(MAX_SHOWN) {
                let named = |problem| format!("{}: {problem}", without_query(address));
                if socket::is_stream(address) {
                    let context = repaints.clone();
                    let stream = socket::connect(address, move || context.request_repaint()).await;
                    let (bytes, socket) = stream.map_err(named)?;
                    let name = without_query(address).to_owned();
                    files.push((name, Bytes::Arriving(bytes, socket)));
                    continue;
                }
                let bytes = fetched(address).await.map_err(named)?;
                files.push((name_of(address), Bytes::All(bytes)));
            }
            Ok(files)
        });
    }

    /// Waits for files; they replace pending ones.
    fn await_files(
        &mut self,
        context: &egui::Context,
        names: &str,
        coming: impl Future<Output = Files> + 'static,
    ) {
        let choice = {
            let mut inbox = self.inbox.borrow_mut();
            inbox.choice += 1;
            inbox.awaited = Some(format!("Loading {names}"));
            inbox.choice
        };
        let (inbox, context) = (Rc::clone(&self.inbox), context.clone());
        spawn_local(async move {
            let files = coming.await;
            let mut inbox = inbox.borrow_mut();
            if inbox.choice == choice {
                inbox.awaited = None;
                inbox.arrived = Some(files);
            }
            context.request_repaint();
        });
    }

    /// Shows its part of the bar, to the left of `right`.
    pub(crate) fn bar(&mut self, ui: &mut Ui, right: impl FnOnce(&mut Ui)) -> Option<Opened> {
        let mut chosen = None;
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            right(ui);
            let open = ui
                .button("Open")
                .on_hover_text("Fetches the capture at this address");
            if !self.is_idle() {
                ui.spinner().on_hover_text("A capture is on its way");
            }
            let field = TextEdit::singleline(&mut self.typed)
                .align(egui::Align2::LEFT_CENTER)
                .hint_text("address of a capture, or drop one on the page")
                .desired_width(ui.available_width());
            let field = ui.add(field);
            field.widget_info(|| {
                egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Address of a capture")
            });
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if (entered || open.clicked()) && !self.typed.trim().is_empty() {
                chosen = Some(self.typed.trim().to_owned());
            }
        });
        if let Some(address) = chosen {
            self.fetch(ui.ctx(), vec![address]);
        }
        None
    }

    /// Shows instructions to begin.
    pub(crate) fn welcome(&mut self, ui: &mut Ui) -> Option<Opened> {
        if let Some(awaited) = &self.inbox.borrow().awaited {
            ui.spinner();
            ui.label(awaited);
        } else {
            ui.label(
                "Drop one on this page, or type its address above. It stays in your browser. To \
                record one:",
            );
            ui.code("VOR_RECORD=run.vor VOR_RECORD_SPANS=1 your-program");
            ui.add_space(space::PART);
            ui.label(RichText::new("A link to this page opens a capture with ?url=…").weak());
        }
        None
    }
}

/// Fetches the bytes at an address; the error is a short text.
async fn fetched(address: &str) -> Result<Vec<u8>, String> {
    let text = |error: JsValue| match error.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.message()),
        None => format!("{error:?}"),
    };
    let window = web_sys::window().ok_or("the page has no window")?;
    let response = JsFuture::from(window.fetch_with_str(address)).await;
    let response = response.map_err(|error| format!("cannot be fetched: {}", text(error)))?;
    let response: web_sys::Response = response
        .dyn_into()
        .map_err(|_| "the answer is of no known kind")?;
    if !response.ok() {
        let (status, meaning) = (response.status(), response.status_text());
        return Err(format!("the server answered {status} {meaning}")
            .trim_end()
            .to_owned());
    }
    let body = response.array_buffer().map_err(text)?;
    let body = JsFuture::from(body).await;
    let body = body.map_err(|error| format!("cannot be fetched to its end: {}", text(error)))?;
    let body = Uint8Array::new(body.unchecked_ref::<ArrayBuffer>());
    let mut bytes = Vec::new();
    let len = body.length() as usize;
    bytes
        .try_reserve_exact(len)
        .map_err(|_| format!("{len} bytes do not fit into the page's memory"))?;
    bytes.resize(len, 0);
    body.copy_to(&mut bytes);
    Ok(bytes)
}

/// Returns an address up to its query.
fn without_query(address: &str) -> &str {
    address.split(['?', '#']).next().unwrap_or(address)
}

/// Returns the last part of an address's path.
fn name_of(address: &str) -> String {
    let path = without_query(address);
    let last = path
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(path);
    // An invalid escape sequence is shown unchanged.
    js_sys::decode_uri_component(last).map_or_else(|_| last.to_owned(), String::from)
}
