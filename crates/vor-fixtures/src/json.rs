//! What was recorded as JSON, for programs that compare it with what others read.

use serde_json::{Value, json};
use vor_capture::model::batch::ArgValue;

/// Returns an argument as viewers are asked for it.
pub fn arg(value: &ArgValue) -> Value {
    match value {
        ArgValue::Bool(value) => json!(value),
        ArgValue::I64(value) => json!(value),
        // As text, since some readers hold numbers as floating-point.
        ArgValue::U64(value) => json!(value.to_string()),
        ArgValue::F64(value) => json!(value),
        ArgValue::Str(value) => json!(&**value),
        other => json!(other.to_string()),
    }
}
