//! Recorded values as JSON, for programs that compare them with the output of viewers.

use serde_json::{Value, json};
use vor_capture::model::batch::ArgValue;

/// Returns an argument as a query of a viewer returns it.
pub fn arg(value: &ArgValue) -> Value {
    match value {
        ArgValue::Bool(value) => json!(value),
        ArgValue::I64(value) => json!(value),
        // Text, because some readers convert numbers to floating-point.
        ArgValue::U64(value) => json!(value.to_string()),
        ArgValue::F64(value) => json!(value),
        ArgValue::Str(value) => json!(&**value),
        other => json!(other.to_string()),
    }
}
