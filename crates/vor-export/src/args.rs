//! Names and texts of a span's arguments.

use std::borrow::Cow;
use std::io::Write as _;

use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::SiteInfo;

use crate::text::push_integer;

/// Returns the name of a call site's argument; one beyond the declared names is named after its
/// position.
#[must_use]
pub fn arg_name(site: Option<&SiteInfo>, position: usize) -> Cow<'_, str> {
    match site.and_then(|site| site.arg_names.get(position)) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("arg{position}")),
    }
}

/// Returns distinct keys for the first arguments of a call site. If an earlier argument has the
/// same name, the key is made of the position.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::catalog::SiteInfo;
///
/// let site = filled!(SiteInfo { arg_names: vec!["size".into(), "size".into()] });
/// assert_eq!(vor_export::arg_keys(Some(&site), 3), ["size", "arg1", "arg2"]);
/// ```
#[must_use]
pub fn arg_keys(site: Option<&SiteInfo>, count: usize) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(count);
    for position in 0..count {
        let mut key = arg_name(site, position).into_owned();
        if keys.contains(&key) {
            key = format!("arg{position}");
        }
        while keys.contains(&key) {
            key.push('_');
        }
        keys.push(key);
    }
    keys
}

/// Appends arguments as readable text: `k=v, k=v`.
pub fn push_args_text(out: &mut Vec<u8>, site: Option<&SiteInfo>, values: &[ArgValue]) {
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(arg_name(site, position).as_bytes());
        out.push(b'=');
        match value {
            ArgValue::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            ArgValue::I64(value) => push_integer(out, *value),
            ArgValue::U64(value) => push_integer(out, *value),
            ArgValue::Str(value) => out.extend_from_slice(value.as_bytes()),
            // Writing to a `Vec` does not fail.
            other => drop(write!(out, "{other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;

    use super::*;

    #[test]
    fn keys_are_distinct_whatever_the_names_are() {
        let site = filled!(SiteInfo {
            arg_names: vec!["arg1".into(), "arg1".into(), "arg1_".into(), "n".into()]
        });
        let keys = arg_keys(Some(&site), 5);
        assert_eq!(keys, ["arg1", "arg1_", "arg2", "n", "arg4"]);
        assert_eq!(arg_keys(None, 2), ["arg0", "arg1"]);
    }
}
