//! Markers, counters and categories of a Firefox profile.
//!
//! Every marker has a type, which defines its fields: text or numbers. The kinds of a call site's
//! arguments are known with their first values. So there is a type per call site and list of kinds,
//! nearly always one. The viewer's numbers are doubles, so integers beyond 2^53 and numbers that
//! are not finite are text. Keys of fields are made of their positions, because the viewer reads
//! templates such as `{marker.data.a0}` and reserves some names; labels are the arguments' names.

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CounterHandle, Marker, MarkerFieldFlags, MarkerFieldFormat,
    MarkerGraphType, MarkerLocations, MarkerTiming, MarkerTypeHandle, ProcessHandle, Profile,
    RuntimeSchemaMarkerField, RuntimeSchemaMarkerGraph, RuntimeSchemaMarkerSchema, StringHandle,
    ThreadHandle, Timestamp,
};
use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, MetricColumn, SiteId, SiteInfo};

use crate::arg_name;

/// The declared types and categories of a profile's markers.
#[derive(Debug, Default)]
pub(super) struct Markers {
    categories: FxHashMap<String, CategoryHandle>,
    /// Types of call sites, by the kinds of their arguments.
    spans: FxHashMap<SiteId, Vec<(Vec<Kind>, MarkerTypeHandle)>>,
    /// Types of markers with one field, by name.
    simple: FxHashMap<&'static str, MarkerTypeHandle>,
    types: u32,
    metrics: FxHashMap<u32, Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Decimal,
}

/// A metric in the profile.
#[derive(Debug)]
enum Metric {
    /// The profile has differences of bytes. This has the bytes of a unit, and the last value in
    /// bytes.
    Counter {
        counter: CounterHandle,
        bytes: f64,
        last: f64,
    },
    Graph(MarkerTypeHandle),
}

/// A marker with its fields, in the order of its type's fields.
struct FieldMarker {
    marker_type: MarkerTypeHandle,
    name: StringHandle,
    category: CategoryHandle,
    fields: Vec<Field>,
}

#[derive(Clone, Copy)]
enum Field {
    Text(StringHandle),
    Number(f64),
}

impl Marker for FieldMarker {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.marker_type
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        match self.fields.get(field as usize) {
            Some(Field::Text(text)) => *text,
            // Unreachable: the type has the same fields.
            _ => self.name,
        }
    }

    fn number_field_value(&self, field: u32) -> f64 {
        match self.fields.get(field as usize) {
            Some(Field::Number(number)) => *number,
            _ => 0.0,
        }
    }
}

/// Largest integer up to which doubles represent all integers.
const MAX_EXACT: u64 = 1 << 53;

impl Markers {
    /// Returns the category of a call site.
    pub(super) fn category(
        &mut self,
        profile: &mut Profile,
        site: Option<&SiteInfo>,
    ) -> CategoryHandle {
        const COLORS: [CategoryColor; 8] = [
            CategoryColor::Blue,
            CategoryColor::Green,
            CategoryColor::Orange,
            CategoryColor::Purple,
            CategoryColor::Red,
            CategoryColor::Yellow,
            CategoryColor::Brown,
            CategoryColor::Magenta,
        ];
        let name = site.map_or("", |site| &site.category);
        if name.is_empty() {
            return CategoryHandle::OTHER;
        }
        if let Some(&category) = self.categories.get(name) {
            return category;
        }
        let color = COLORS[self.categories.len() % COLORS.len()];
        let category = profile.add_category(name, color);
        self.categories.insert(name.to_owned(), category);
        category
    }

    /// Adds the marker of a span with arguments.
    pub(super) fn span(
        &mut self,
        profile: &mut Profile,
        thread: ThreadHandle,
        times: (Timestamp, Timestamp),
        (catalog, site_id): (&Catalog, SiteId),
        values: &[ArgValue],
    ) {
        let site = catalog.site(site_id);
        let (kinds, fields): (Vec<_>, Vec<_>) =
            values.iter().map(|value| field(profile, value)).unzip();
        let known = self.spans.get(&site_id);
        let known = known.and_then(|types| types.iter().find(|(other, _)| *other == kinds));
        let marker_type = match known {
            Some((_, marker_type)) => *marker_type,
            None => {
                let named = |(i, kind): (usize, &Kind)| (arg_name(site, i).into_owned(), *kind);
                let named: Vec<_> = kinds.iter().enumerate().map(named).collect();
                let mut schema = self.schema(catalog.site_name(site_id), &named);
                schema.description = site.filter(|site| !site.file.is_empty()).map(place);
                let marker_type = profile.register_marker_type(schema);
                self.spans
                    .entry(site_id)
                    .or_default()
                    .push((kinds, marker_type));
                marker_type
            }
        };
        let marker = FieldMarker {
            marker_type,
            name: profile.intern_string(catalog.site_name(site_id)),
            category: self.category(profile, site),
            fields,
        };
        profile.add_marker(thread, MarkerTiming::Interval(times.0, times.1), marker);
    }

    /// Adds the marker of a message.
    pub(super) fn message(
        &mut self,
        profile: &mut Profile,
        thread: ThreadHandle,
        at: Timestamp,
        text: &str,
    ) {
        let marker_type = self.simple_type(profile, "message", "text", Kind::Text);
        let text = profile.intern_string(text);
        add(
            profile,
            thread,
            MarkerTiming::Instant(at),
            ("message", marker_type),
            Field::Text(text),
        );
    }

    /// Adds the marker of a task.
    pub(super) fn task(
        &mut self,
        profile: &mut Profile,
        thread: ThreadHandle,
        (start, end): (Timestamp, Timestamp),
        (catalog, site): (&Catalog, SiteId),
        id: u64,
    ) {
        let marker_type = self.simple_type(profile, "task", "task", Kind::Integer);
        let timing = MarkerTiming::Interval(start, end.max(start));
        let name = catalog.site_name(site);
        add(
            profile,
            thread,
            timing,
            (name, marker_type),
            Field::Number(id as f64),
        );
    }

    /// Adds the marker of a frame.
    pub(super) fn frame(
        &mut self,
        profile: &mut Profile,
        thread: ThreadHandle,
        (start, end): (Timestamp, Timestamp),
        name: &str,
        index: u64,
    ) {
        let marker_type = self.simple_type(profile, "frame", "index", Kind::Integer);
        let timing = MarkerTiming::Interval(start, end);
        add(
            profile,
            thread,
            timing,
            (name, marker_type),
            Field::Number(index as f64),
        );
    }

    /// Adds a marker with a count.
    pub(super) fn count(
        &mut self,
        profile: &mut Profile,
        thread: ThreadHandle,
        at: Timestamp,
        name: &str,
        count: u64,
    ) {
        let marker_type = self.simple_type(profile, "count", "count", Kind::Integer);
        let timing = MarkerTiming::Instant(at);
        add(
            profile,
            thread,
            timing,
            (name, marker_type),
            Field::Number(count as f64),
        );
    }

    /// Adds a finite value of a metric.
    pub(super) fn metric(
        &mut self,
        profile: &mut Profile,
        (process, thread, column): (ProcessHandle, ThreadHandle, u32),
        metric: &MetricColumn,
        at: Timestamp,
        value: f64,
    ) {
        if !self.metrics.contains_key(&column) {
            let is_memory = metric.name.to_ascii_lowercase().contains("mem");
            let declared = match bytes_of_unit(&metric.unit).filter(|_| is_memory) {
                // The viewer draws a level only for counters of this category, and shows it as
                // bytes of memory.
                Some(bytes) => Metric::Counter {
                    counter: profile.add_counter(process, &metric.name, "Memory", &metric.unit),
                    bytes,
                    last: 0.0,
                },
                None => {
                    let label = match metric.unit.as_str() {
                        "" => "value",
                        unit => unit,
                    };
                    let mut schema =
                        self.schema(&metric.name, &[(label.to_owned(), Kind::Decimal)]);
                    schema.graphs.push(RuntimeSchemaMarkerGraph {
                        key: key(0),
                        graph_type: MarkerGraphType::LineFilled,
                        color: None,
                    });
                    Metric::Graph(profile.register_marker_type(schema))
                }
            };
            self.metrics.insert(column, declared);
        }
        match self.metrics.get_mut(&column) {
            Some(Metric::Counter {
                counter,
                bytes,
                last,
            }) => {
                let level = value * *bytes;
                profile.add_counter_sample(*counter, at, level - *last, 0);
                *last = level;
            }
            Some(Metric::Graph(marker_type)) => {
                let kind = (metric.name.as_str(), *marker_type);
                add(
                    profile,
                    thread,
                    MarkerTiming::Instant(at),
                    kind,
                    Field::Number(value),
                );
            }
            None => {}
        }
    }

    /// Returns the type of markers with one field.
    fn simple_type(
        &mut self,
        profile: &mut Profile,
        name: &'static str,
        label: &str,
        kind: Kind,
    ) -> MarkerTypeHandle {
        if let Some(&known) = self.simple.get(name) {
            return known;
        }
        let schema = self.schema(name, &[(label.to_owned(), kind)]);
        let marker_type = profile.register_marker_type(schema);
        self.simple.insert(name, marker_type);
        marker_type
    }

    /// Describes a type of markers; a number makes its name unique.
    fn schema(&mut self, name: &str, fields: &[(String, Kind)]) -> RuntimeSchemaMarkerSchema {
        self.types += 1;
        let field = |(i, (label, kind)): (usize, &(String, Kind))| RuntimeSchemaMarkerField {
            key: key(i),
            label: label.clone(),
            format: match kind {
                Kind::Text => MarkerFieldFormat::String,
                Kind::Integer => MarkerFieldFormat::Integer,
                Kind::Decimal => MarkerFieldFormat::Decimal,
            },
            flags: MarkerFieldFlags::SEARCHABLE,
        };
        let label = |(i, (label, _)): (usize, &(String, Kind))| {
            // A brace begins a template.
            let label = label.replace(['{', '}'], "_");
            format!("{label}={{marker.data.{}}}", key(i))
        };
        let labels: Vec<_> = fields.iter().enumerate().map(label).collect();
        RuntimeSchemaMarkerSchema {
            type_name: format!("{name} {}", self.types),
            description: None,
            locations: MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE,
            chart_label: Some("{marker.name}".to_owned()),
            tooltip_label: None,
            table_label: Some(labels.join(", ")),
            fields: fields.iter().enumerate().map(field).collect(),
            graphs: Vec::new(),
        }
    }
}

fn key(position: usize) -> String {
    format!("a{position}")
}

fn place(site: &SiteInfo) -> String {
    match site.line {
        0 => site.file.clone().into_owned(),
        line => format!("{}:{line}", site.file),
    }
}

fn add(
    profile: &mut Profile,
    thread: ThreadHandle,
    timing: MarkerTiming,
    (name, marker_type): (&str, MarkerTypeHandle),
    field: Field,
) {
    let marker = FieldMarker {
        marker_type,
        name: profile.intern_string(name),
        category: CategoryHandle::OTHER,
        fields: vec![field],
    };
    profile.add_marker(thread, timing, marker);
}

fn field(profile: &mut Profile, value: &ArgValue) -> (Kind, Field) {
    match value {
        ArgValue::I64(value) if value.unsigned_abs() <= MAX_EXACT => {
            (Kind::Integer, Field::Number(*value as f64))
        }
        ArgValue::U64(value) if *value <= MAX_EXACT => {
            (Kind::Integer, Field::Number(*value as f64))
        }
        ArgValue::F64(value) if value.is_finite() => (Kind::Decimal, Field::Number(*value)),
        ArgValue::Str(value) => (Kind::Text, Field::Text(profile.intern_string(value))),
        other => (
            Kind::Text,
            Field::Text(profile.intern_string(&other.to_string())),
        ),
    }
}

/// Returns the size of a unit of bytes.
fn bytes_of_unit(unit: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 11] = [
        ("B", 1.0),
        ("bytes", 1.0),
        ("byte", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
    ];
    let found = UNITS.iter().find(|(name, _)| *name == unit);
    found.map(|(_, bytes)| *bytes)
}
