//! A reader of the protobuf wire format.

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub fn number(&self) -> u64 {
        match self {
            Self::Varint(number) | Self::Fixed(number) => *number,
            Self::Bytes(_) => panic!("not a number"),
        }
    }

    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Varint(_) | Self::Fixed(_) => panic!("not bytes"),
            Self::Bytes(bytes) => bytes,
        }
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Returns the fields of a message; `None` if the bytes are none.
pub fn try_fields(mut bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let field = match key & 7 {
            0 => Field::Varint(varint(&mut bytes)?),
            1 => Field::Fixed(u64::from_le_bytes(
                bytes.split_off(..8)?.try_into().expect("8 bytes"),
            )),
            5 => Field::Fixed(u64::from(u32::from_le_bytes(
                bytes.split_off(..4)?.try_into().expect("4 bytes"),
            ))),
            2 => {
                let length = varint(&mut bytes)?.try_into().ok()?;
                Field::Bytes(bytes.split_off(..length)?)
            }
            _ => return None,
        };
        fields.push((key >> 3, field));
    }
    Some(fields)
}

/// Returns the fields of a message.
pub fn fields(bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    try_fields(bytes).expect("a message of protobuf")
}

/// Lists the fields of a message, one per line, each with the numbers of the fields around it.
pub fn listing(bytes: &[u8]) -> String {
    let mut lines = String::new();
    list(&fields(bytes), "", &mut lines);
    lines
}

fn list(fields: &[(u64, Field<'_>)], around: &str, lines: &mut String) {
    for (number, field) in fields {
        let path = format!("{around}{number}");
        let value = match field {
            Field::Varint(value) | Field::Fixed(value) => value.to_string(),
            Field::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.contains(char::is_control) => format!("{text:?}"),
                _ => match try_fields(bytes) {
                    Some(inner) if inner.iter().all(|(number, _)| *number > 0) => {
                        lines.push_str(&format!("{path} {{\n"));
                        list(&inner, &format!("{path}."), lines);
                        continue;
                    }
                    _ => format!("{bytes:02x?}"),
                },
            },
        };
        lines.push_str(&format!("{path} = {value}\n"));
    }
}

/// Returns the value of the only field with a number, or 0.
pub fn one(fields: &[(u64, Field<'_>)], number: u64) -> u64 {
    let mut of = fields.iter().filter(|(field, _)| *field == number);
    let value = of.next().map_or(0, |(_, field)| field.number());
    assert!(of.next().is_none(), "field {number} occurs twice");
    value
}

/// Returns the fields of each message in a field.
pub fn messages<'a>(of: &[(u64, Field<'a>)], number: u64) -> Vec<Vec<(u64, Field<'a>)>> {
    let of = of.iter().filter(|(field, _)| *field == number);
    of.map(|(_, field)| fields(field.bytes())).collect()
}

/// Returns the bytes of a field that occurs at most once.
pub fn bytes<'a>(of: &[(u64, Field<'a>)], number: u64) -> &'a [u8] {
    let mut of = of.iter().filter(|(field, _)| *field == number);
    of.next().map_or(&[], |(_, field)| field.bytes())
}

/// Returns the text of a field that occurs at most once.
pub fn text(of: &[(u64, Field<'_>)], number: u64) -> String {
    String::from_utf8(bytes(of, number).to_vec()).expect("UTF-8")
}
