//! Says of most objects that they are right, without a validator.
//!
//! Nearly every object that is judged is valid, and a validator that can explain errors is dear to
//! build and to ask. This reads the same JSON Schema into a table and answers one question: is the
//! instance surely valid? Whatever it does not understand, or finds wrong, is not sure, and then
//! the validator has the word. A test holds the two against each other.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use crate::tree::scalar::Scalar;
use crate::tree::{SlotKind, Tree};

use super::check::{Distinct, is_format};
use super::instance::Cursor;

/// A schema as a table; the first row is the root.
#[derive(Debug)]
pub(super) struct Quick(Vec<Row>);

type At = usize;

/// What one subschema asks.
#[derive(Debug, Default)]
struct Row {
    /// The types that it takes, as bits; none where it takes any.
    types: u8,
    /// By length and text of their names.
    properties: Vec<(Box<str>, At)>,
    required: Vec<Box<str>>,
    others: Others,
    items: Option<At>,
    texts: Option<Vec<Box<str>>>,
    pattern: Option<Regex>,
    format: Option<Box<str>>,
    minimum: Option<i64>,
    maximum: Option<i64>,
    /// Bounds of characters, of items, of entries.
    lengths: [(usize, usize); 3],
    distinct: Option<Distinct>,
    all: Vec<At>,
    any: Option<Vec<At>>,
    /// It asks what only the validator understands.
    unsure: bool,
}

/// What fields may be there that are not named.
#[derive(Clone, Copy, Debug, Default)]
enum Others {
    #[default]
    Any,
    None,
    Like(At),
}

const CHARACTERS: usize = 0;
const ITEMS: usize = 1;
const ENTRIES: usize = 2;

const NULL: u8 = 1;
const BOOLEAN: u8 = 2;
const INTEGER: u8 = 4;
const NUMBER: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;

impl Quick {
    pub(super) fn new(schema: &Value) -> Quick {
        let mut making = Making { rows: Vec::new(), named: HashMap::new(), root: schema };
        making.row(schema);
        Quick(making.rows)
    }

    /// Whether the instance is valid for sure.
    pub(super) fn is_sure(&self, tree: &Tree, slot: u32) -> bool {
        self.holds(0, tree, slot)
    }

    fn holds(&self, at: At, tree: &Tree, slot: u32) -> bool {
        let row = &self.0[at];
        if row.unsure {
            return false;
        }
        let slot = tree.resolve(slot);
        let of_kind = match tree.slot(slot).kind {
            SlotKind::Mapping | SlotKind::FlowMapping => self.is_map(row, tree, slot),
            SlotKind::Sequence | SlotKind::FlowSequence => self.is_list(row, tree, slot),
            _ => tree.scalar(slot).is_some_and(|scalar| is_scalar(row, scalar)),
        };
        of_kind
            && row.all.iter().all(|one| self.holds(*one, tree, slot))
            && (row.any.as_ref()).is_none_or(|any| any.iter().any(|one| self.holds(*one, tree, slot)))
    }

    fn is_map(&self, row: &Row, tree: &Tree, slot: u32) -> bool {
        if !row.takes(OBJECT) || row.texts.is_some() {
            return false;
        }
        let field = |name: &str, child: u32| {
            if is_null(tree, child) {
                return true;
            }
            let known = row.properties.binary_search_by(|(known, _)| order(known, name));
            match (known, row.others) {
                (Ok(found), _) => self.holds(row.properties[found].1, tree, child),
                (Err(_), Others::Any) => true,
                (Err(_), Others::None) => false,
                (Err(_), Others::Like(at)) => self.holds(at, tree, child),
            }
        };
        let count = if tree.slot(slot).merges() {
            let entries = tree.entries(slot);
            if !entries.iter().all(|(name, child, _)| field(name, *child)) {
                return false;
            }
            entries.len()
        } else {
            // A key that is written twice is judged twice, which is stricter than need be.
            let mut count = 0;
            for child in tree.children(slot) {
                if !field(tree.key_name(child), child) {
                    return false;
                }
                count += 1;
            }
            count
        };
        let there = |name: &str| {
            let entry = tree.entry(slot, name);
            entry.is_some_and(|(child, _)| !is_null(tree, child))
        };
        // Null counts as an entry here, which may be one too many or too few: then nothing is sure.
        let (least, most) = row.lengths[ENTRIES];
        let bounded = least > 0 || most < usize::MAX;
        let nulls = bounded && tree.children(slot).any(|child| is_null(tree, child));
        row.required.iter().all(|name| there(name)) && count >= least && count <= most && !nulls
    }

    fn is_list(&self, row: &Row, tree: &Tree, slot: u32) -> bool {
        if !row.takes(ARRAY) || row.texts.is_some() {
            return false;
        }
        let mut count = 0;
        for child in tree.children(slot) {
            count += 1;
            if row.items.is_some_and(|items| !self.holds(items, tree, child)) {
                return false;
            }
        }
        let (least, most) = row.lengths[ITEMS];
        count >= least
            && count <= most
            && (row.distinct.as_ref())
                .is_none_or(|distinct| count < 2 || distinct.repeated(Cursor::new(tree, slot)).is_none())
    }
}

impl Row {
    fn takes(&self, of: u8) -> bool {
        self.types == 0 || self.types & of != 0
    }
}

fn is_null(tree: &Tree, slot: u32) -> bool {
    tree.is_null(tree.resolve(slot))
}

fn order(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn is_scalar(row: &Row, scalar: Scalar<'_>) -> bool {
    match scalar {
        Scalar::Null => row.takes(NULL) && row.texts.is_none(),
        Scalar::Bool(_) => row.takes(BOOLEAN) && row.texts.is_none(),
        Scalar::Int(n) => {
            row.takes(INTEGER | NUMBER)
                && row.texts.is_none()
                && row.minimum.is_none_or(|least| n >= least)
                && row.maximum.is_none_or(|most| n <= most)
        }
        Scalar::UInt(_) | Scalar::Float(_) => {
            row.takes(NUMBER) && row.texts.is_none() && row.minimum.is_none() && row.maximum.is_none()
        }
        Scalar::Str(text) => {
            let (least, most) = row.lengths[CHARACTERS];
            let bounded = least > 0 || most < usize::MAX;
            let length = if bounded { text.chars().count() } else { 0 };
            row.takes(STRING)
                && (row.texts.as_ref()).is_none_or(|texts| texts.iter().any(|t| **t == *text))
                && length >= least
                && length <= most
                && row.pattern.as_ref().is_none_or(|p| p.is_match(text))
                && row.format.as_ref().is_none_or(|f| is_format(f, text))
        }
    }
}

/// A table under construction.
struct Making<'s> {
    rows: Vec<Row>,
    /// Rows of definitions, by their names.
    named: HashMap<&'s str, At>,
    root: &'s Value,
}

impl<'s> Making<'s> {
    fn row(&mut self, schema: &'s Value) -> At {
        // What is nothing but a reference is what it refers to.
        if let Some(map) = schema.as_object().filter(|map| map.len() == 1)
            && let Some(name) = map.get("$ref").and_then(Value::as_str)
            && let Some(target) = self.reference(name)
        {
            return target;
        }
        let at = self.rows.len();
        self.rows.push(Row::default());
        self.fill(at, schema);
        at
    }

    fn fill(&mut self, at: At, schema: &'s Value) {
        let mut row = Row { lengths: [(0, usize::MAX); 3], ..Row::default() };
        match schema {
            Value::Bool(true) => {}
            Value::Object(map) => {
                for (key, value) in map {
                    let understood = self.keyword(&mut row, key, value);
                    row.unsure |= understood.is_none();
                }
            }
            _ => row.unsure = true,
        }
        self.rows[at] = row;
    }

    /// Reads one keyword into a row; `None` where it is not understood.
    fn keyword(&mut self, row: &mut Row, key: &str, value: &'s Value) -> Option<()> {
        let length = |value: &Value| usize::try_from(value.as_u64()?).ok();
        match key {
            "$defs" => {}
            "$ref" => {
                let target = self.reference(value.as_str()?)?;
                row.all.push(target);
            }
            "type" => {
                let one = std::slice::from_ref(value);
                let names = value.as_array().map_or(one, Vec::as_slice);
                for name in names {
                    row.types |= type_bit(name.as_str()?)?;
                }
            }
            "properties" => {
                for (name, schema) in value.as_object()? {
                    let field = self.row(schema);
                    row.properties.push((Box::from(name.as_str()), field));
                }
                row.properties.sort_by(|a, b| order(&a.0, &b.0));
            }
            "required" => {
                for name in value.as_array()? {
                    row.required.push(Box::from(name.as_str()?));
                }
            }
            "additionalProperties" => {
                row.others = match value {
                    Value::Bool(false) => Others::None,
                    Value::Bool(true) => Others::Any,
                    schema => Others::Like(self.row(schema)),
                };
            }
            "items" => row.items = Some(self.row(value)),
            "enum" => {
                let texts = value.as_array()?.iter();
                row.texts = Some(texts.filter_map(Value::as_str).map(Box::from).collect());
            }
            "pattern" => row.pattern = Some(Regex::new(value.as_str()?).ok()?),
            "format" => row.format = Some(Box::from(value.as_str()?)),
            "minimum" => row.minimum = Some(value.as_i64()?),
            "maximum" => row.maximum = Some(value.as_i64()?),
            "minLength" => row.lengths[CHARACTERS].0 = length(value)?,
            "maxLength" => row.lengths[CHARACTERS].1 = length(value)?,
            "minItems" => row.lengths[ITEMS].0 = length(value)?,
            "maxItems" => row.lengths[ITEMS].1 = length(value)?,
            "minProperties" => row.lengths[ENTRIES].0 = length(value)?,
            "maxProperties" => row.lengths[ENTRIES].1 = length(value)?,
            "allOf" => {
                for schema in value.as_array()? {
                    let one = self.row(schema);
                    row.all.push(one);
                }
            }
            "anyOf" => {
                let any = value.as_array()?.iter();
                row.any = Some(any.map(|schema| self.row(schema)).collect());
            }
            super::check::DISTINCT => row.distinct = Some(Distinct::new(value)),
            _ => return None,
        }
        Some(())
    }

    /// The row of a definition: made once, before it is filled, because definitions may refer to
    /// themselves.
    fn reference(&mut self, name: &'s str) -> Option<At> {
        let name = name.strip_prefix("#/$defs/")?;
        if let Some(at) = self.named.get(name) {
            return Some(*at);
        }
        let schema = self.root.get("$defs")?.get(name)?;
        let at = self.rows.len();
        self.rows.push(Row::default());
        self.named.insert(name, at);
        self.fill(at, schema);
        Some(at)
    }
}

fn type_bit(name: &str) -> Option<u8> {
    Some(match name {
        "null" => NULL,
        "boolean" => BOOLEAN,
        "integer" => INTEGER,
        "number" => NUMBER,
        "string" => STRING,
        "array" => ARRAY,
        "object" => OBJECT,
        _ => return None,
    })
}
