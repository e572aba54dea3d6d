//! Functions that kube-cel computes differently from cel-go, implemented as in cel-go.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, Value};
use regex::{Regex, RegexBuilder};

type Outcome = Result<Value, ExecutionError>;

/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 2 * 1024 * 1024;
/// Maximum number of patterns that a thread caches.
const MAX_PATTERNS: usize = 64;

thread_local! {
    /// Compiled patterns: compiling one takes longer than an evaluation, and a loop uses the same one for each item.
    static PATTERNS: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// The functions that an expression may call.
pub(super) fn context() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("size", size);
    context.add_function("matches", matches);
    context.add_function("find", find);
    context.add_function("string", string);
    context.add_function("int", int);
    context
}

/// The functions of expressions over numbers.
pub(super) fn number_context() -> Context<'static> {
    let mut context = context();
    context.add_function("max", |Arguments(numbers): Arguments| of_two(&numbers, |a, b| a > b));
    context.add_function("min", |Arguments(numbers): Arguments| of_two(&numbers, |a, b| a < b));
    context
}

/// The first of two numbers if it is the one that is wanted, otherwise the second. An integer beside a double becomes a double.
fn of_two(numbers: &[Value], wanted: fn(f64, f64) -> bool) -> Outcome {
    let double = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    let [first, second] = numbers else { return Err(ExecutionError::NoSuchOverload) };
    let (Some(a), Some(b)) = (double(first), double(second)) else {
        return Err(ExecutionError::NoSuchOverload);
    };
    Ok(match (first, second) {
        (Value::Int(a_int), Value::Int(b_int)) => Value::Int(if wanted(a, b) { *a_int } else { *b_int }),
        _ => Value::Float(if wanted(a, b) { a } else { b }),
    })
}

/// The number of Unicode code points of a string, of items of a list, of entries of a map.
fn size(This(this): This<Value>) -> Outcome {
    let count = match &this {
        Value::String(text) => text.chars().count(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    i64::try_from(count).map(Value::Int).map_err(|_| ExecutionError::NoSuchOverload)
}

fn matches(This(this): This<Arc<String>>, pattern: Arc<String>) -> Outcome {
    Ok(Value::Bool(compile(&pattern, &this)?.is_match(&this)))
}

/// The first match, or the empty string.
fn find(This(this): This<Arc<String>>, pattern: Arc<String>) -> Outcome {
    let found = compile(&pattern, &this)?.find(&this).map_or("", |found| found.as_str());
    Ok(Value::String(Arc::new(found.to_owned())))
}

/// Compiles a pattern of RE2. Its classes `\d`, `\s`, `\w` and `\b` are ASCII, those of the library are Unicode, so
/// only ASCII texts are supported.
fn compile(pattern: &str, text: &str) -> Result<Regex, ExecutionError> {
    if !text.is_ascii() && pattern.contains('\\') {
        return Err(ExecutionError::function_error(
            "matches",
            "a class of characters and a text beyond ASCII",
        ));
    }
    PATTERNS.with_borrow_mut(|known| {
        if let Some(compiled) = known.get(pattern) {
            return Ok(compiled.clone());
        }
        let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
        let compiled = compiled.map_err(|error| ExecutionError::function_error("matches", error))?;
        if known.len() >= MAX_PATTERNS {
            known.clear();
        }
        known.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    })
}

fn string(This(this): This<Value>) -> Outcome {
    let text = match this {
        Value::String(_) => return Ok(this),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::String(Arc::new(text)))
}

fn int(This(this): This<Value>) -> Outcome {
    match this {
        Value::Int(_) => Ok(this),
        Value::String(text) if !text.starts_with('+') => {
            text.parse().map(Value::Int).map_err(|error| ExecutionError::function_error("int", error))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
