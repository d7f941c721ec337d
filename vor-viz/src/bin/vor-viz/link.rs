//! Links to the shown place: a command, or the address of the page.

use vor_viz::replay::Place;
#[cfg(not(target_arch = "wasm32"))]
use vor_viz::replay::ReplayState;

/// Returns the command that opens a capture at a place, or its original if it is a copy; `None` for
/// one that is no file.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn to(
    replay: &ReplayState,
    copy_of: Option<&str>,
    place: Option<Place>,
) -> Option<String> {
    let path = replay.path()?;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let what = quoted(copy_of.unwrap_or(&path.display().to_string()));
    Some(match place {
        Some(place) => {
            let (name, value) = place.parts();
            format!("vor view {what} --{name} {value}")
        }
        None => format!("vor view {what}"),
    })
}

/// Returns a word as a shell reads it.
#[cfg(not(target_arch = "wasm32"))]
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Returns the address of the page with a place; `None` if its capture has no address.
#[cfg(target_arch = "wasm32")]
pub(crate) fn to(place: Option<Place>) -> Option<String> {
    let location = web_sys::window()?.location();
    let address = location.href().ok()?;
    let address = address.split(['?', '#']).next()?.to_owned();
    let parameters = web_sys::UrlSearchParams::new_with_str(&location.search().ok()?).ok()?;
    parameters.get("url")?;
    for name in ["time", "zoom", "frame"] {
        parameters.delete(name);
    }
    if let Some(place) = place {
        let (name, value) = place.parts();
        parameters.append(name, &value);
    }
    let text: String = parameters.to_string().into();
    Some(format!("{address}?{text}"))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("/tmp/run.vor"), "/tmp/run.vor");
        assert_eq!(quoted("a run.vor"), "'a run.vor'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("$x"), "'$x'");
    }
}
