//! Expressions: parsed, checked for parts that behave differently in the API server, and evaluated.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as CelValue};
use serde_json::Value;

use super::functions;
use super::scan::Scan;
use super::work::{Size, Work};
use crate::steps;

/// Maximum number of operators, and depth, of expressions that are parsed and evaluated on the current thread. Others
/// get a thread with a stack of [`STACK`] bytes: the parser uses up to 100 KiB of stack for each level.
const MAX_INLINE_OPERATORS: usize = 48;
const MAX_INLINE_NESTING: usize = 5;
/// Stack for the largest expression that is parsed, in bytes. Unused pages cost nothing.
const STACK: usize = 256 * 1024 * 1024;

/// Number of steps of the parser for an expression, for each byte, for each operator or bracket, and for an error.
const STEPS_PER_EXPRESSION: usize = 600;
const STEPS_PER_BYTE: usize = 30;
const STEPS_PER_OPERATOR: usize = 300;
const STEPS_PER_ERROR: usize = 4_000;
/// Number of steps for starting a thread.
const STEPS_PER_THREAD: usize = 10_000;

thread_local! {
    /// The functions; registering them takes longer than evaluating most expressions.
    static FUNCTIONS_IN_SCOPE: Context<'static> = functions::context();
    static NUMBER_FUNCTIONS_IN_SCOPE: Context<'static> = functions::number_context();
}

/// Functions that are written as operators.
const OPERATORS: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
];

/// Functions by name: the numbers of arguments without the receiver, and whether they are called on one.
const FUNCTIONS: &[(&str, &[usize], Receiver)] = &[
    ("size", &[0], Receiver::Either),
    ("matches", &[1], Receiver::Method),
    ("find", &[1], Receiver::Method),
    ("startsWith", &[1], Receiver::Method),
    ("endsWith", &[1], Receiver::Method),
    ("contains", &[1], Receiver::Method),
    ("lowerAscii", &[0], Receiver::Method),
    ("upperAscii", &[0], Receiver::Method),
    ("trim", &[0], Receiver::Method),
    ("split", &[1], Receiver::Method),
    ("join", &[0, 1], Receiver::Method),
    ("isSorted", &[0], Receiver::Method),
    ("sum", &[0], Receiver::Method),
    ("min", &[0], Receiver::Method),
    ("max", &[0], Receiver::Method),
    ("string", &[0], Receiver::Function),
    ("int", &[0], Receiver::Function),
    ("quantity", &[0], Receiver::Function),
    ("isQuantity", &[0], Receiver::Function),
    ("isLessThan", &[1], Receiver::Method),
    ("isGreaterThan", &[1], Receiver::Method),
    ("compareTo", &[1], Receiver::Method),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    /// `receiver.name(…)`.
    Method,
    /// `name(receiver, …)`.
    Function,
    Either,
}

/// An expression whose value is the same as in the API server.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
    scan: Scan,
    depends_on_list_type: bool,
    work: Work,
}

impl Expression {
    /// `None` if the expression is unknown: it does not parse, is too large, or uses unsupported parts.
    pub(crate) fn parse(text: &str) -> Option<Expression> {
        let scan = Scan::new(text).filter(|scan| scan.is_plain)?;
        Self::parse_as(text, scan, false)
    }

    /// `has_numbers`: whether `max` and `min` of two numbers are functions.
    fn parse_as(text: &str, scan: Scan, has_numbers: bool) -> Option<Expression> {
        take_to_parse(text, scan);
        with_stack(scan, || {
            let program = Program::compile(text).ok()?;
            let mut walk = Walk { depends_on_list_type: false, has_numbers };
            let known = walk.is_known(program.expression());
            let depends_on_list_type = walk.depends_on_list_type;
            let work = Work::of(program.expression());
            known.then_some(Expression { program, scan, depends_on_list_type, work })
        })
    }

    pub(crate) fn has_variable(&self, name: &str) -> bool {
        with_stack(self.scan, || self.program.references().has_variable(name))
    }

    /// Whether the expression compares or concatenates values that may be lists: those of a set or a map are
    /// unordered.
    pub(crate) fn depends_on_list_type(&self) -> bool {
        self.depends_on_list_type
    }

    /// The value of the expression with `this` as `self`. `None` if the evaluation fails, and for results other than a
    /// string or a boolean. The evaluator counts no steps, so they are estimated before.
    pub(crate) fn evaluate(&self, this: &Value) -> Option<Value> {
        let mut size = Size::default();
        let this = to_cel(this, &mut size);
        steps::take(self.work.steps(&size));
        with_stack(self.scan, || {
            FUNCTIONS_IN_SCOPE.with(|functions| {
                let mut context = functions.new_inner_scope();
                context.add_variable_from_value("self", this);
                match self.program.execute(&context).ok()? {
                    CelValue::Bool(flag) => Some(Value::Bool(flag)),
                    CelValue::String(text) => Some(Value::from(text.as_str())),
                    _ => None,
                }
            })
        })
    }
}

/// An expression over numbers that gives a number, with `max` and `min` of two numbers.
#[derive(Debug)]
pub(crate) struct NumberExpression(Expression);

impl NumberExpression {
    /// `None` if the expression is unknown.
    pub(crate) fn parse(text: &str) -> Option<NumberExpression> {
        let scan = Scan::new(text).filter(|scan| scan.is_plain)?;
        Expression::parse_as(text, scan, true).map(NumberExpression)
    }

    /// The whole part of the value for integers and texts by name. `None` if the evaluation fails.
    pub(crate) fn evaluate(&self, numbers: &[(&str, i64)], texts: &[(&str, &str)]) -> Option<i64> {
        steps::take(self.0.work.steps(&Size::default()));
        with_stack(self.0.scan, || {
            NUMBER_FUNCTIONS_IN_SCOPE.with(|functions| {
                let mut context = functions.new_inner_scope();
                for (name, number) in numbers {
                    context.add_variable_from_value(*name, CelValue::Int(*number));
                }
                for (name, text) in texts {
                    context.add_variable_from_value(*name, CelValue::String(Arc::new((*text).to_owned())));
                }
                match self.0.program.execute(&context).ok()? {
                    CelValue::Int(number) => Some(number),
                    // Beyond these the conversion of Go is not defined.
                    CelValue::Float(number) if number.abs() < 9e15 => Some(number as i64),
                    _ => None,
                }
            })
        })
    }
}

/// The first error of an expression that the API server cannot parse either; `None` if it parses, or if that is
/// unknown.
pub(crate) fn syntax_error(text: &str) -> Option<String> {
    let scan = Scan::new(text).filter(|scan| scan.is_plain)?;
    take_to_parse(text, scan);
    let errors = with_stack(scan, || Program::compile(text).err())?;
    steps::take(STEPS_PER_ERROR);
    let first = errors.errors.first()?;
    // The macros of later versions have other numbers of arguments, and the API server allows deeper nesting.
    let unknown = ["macro", "unsupported", "Recursion"];
    (!unknown.iter().any(|word| first.msg.contains(word))).then(|| first.msg.clone())
}

/// Takes the steps of the parser before it begins, because it does not count them.
fn take_to_parse(text: &str, scan: Scan) {
    steps::take(STEPS_PER_EXPRESSION + STEPS_PER_BYTE * text.len() + STEPS_PER_OPERATOR * scan.operators);
}

/// Runs `work` on a stack that is large enough for an expression.
fn with_stack<T: Default + Send>(scan: Scan, work: impl FnOnce() -> T + Send) -> T {
    if scan.operators <= MAX_INLINE_OPERATORS && scan.nesting <= MAX_INLINE_NESTING {
        return work();
    }
    steps::take(STEPS_PER_THREAD);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        // Unknown without a thread, or if the library panics.
        thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_default()
    })
}

/// Checks whether all parts of an expression are supported.
struct Walk {
    depends_on_list_type: bool,
    has_numbers: bool,
}

impl Walk {
    fn is_known(&mut self, expression: &IdedExpr) -> bool {
        match &expression.expr {
            Expr::Literal(literal) => !matches!(literal, LiteralValue::Bytes(_)),
            Expr::Ident(_) => true,
            Expr::Select(select) => self.is_known(&select.operand),
            Expr::List(list) => {
                list.optional_indices.is_empty() && list.elements.iter().all(|item| self.is_known(item))
            }
            Expr::Map(map) => map.entries.iter().all(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    !entry.optional && self.is_known(&entry.key) && self.is_known(&entry.value)
                }
                EntryExpr::StructField(_) => false,
            }),
            Expr::Comprehension(comprehension) => {
                comprehension.iter_var2.is_none()
                    && [
                        &comprehension.iter_range,
                        &comprehension.accu_init,
                        &comprehension.loop_cond,
                        &comprehension.loop_step,
                        &comprehension.result,
                    ]
                    .into_iter()
                    .all(|part| self.is_known(part))
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let operator = call.target.is_none() && OPERATORS.contains(&name);
                let equality = [operators::EQUALS, operators::NOT_EQUALS, operators::ADD].contains(&name);
                // `map` and `filter` append to a list of the macro itself.
                let lists = call.args.iter().all(may_be_list);
                self.depends_on_list_type |= operator && equality && lists;
                let function = FUNCTIONS.iter().any(|(known, counts, receiver)| {
                    let count = match (&call.target, receiver) {
                        (Some(_), Receiver::Method | Receiver::Either) => Some(call.args.len()),
                        (None, Receiver::Function | Receiver::Either) => call.args.len().checked_sub(1),
                        _ => None,
                    };
                    *known == name && count.is_some_and(|count| counts.contains(&count))
                });
                let of_numbers = self.has_numbers
                    && call.target.is_none()
                    && (matches!(name, "max" | "min") && call.args.len() == 2
                        || name == "double" && call.args.len() == 1);
                (operator || function || of_numbers)
                    && call.target.iter().all(|target| self.is_known(target))
                    && call.args.iter().all(|argument| self.is_known(argument))
            }
            _ => false,
        }
    }
}

/// Whether the value of an expression may be a list of the object.
fn may_be_list(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(name) => !name.starts_with('@'),
        Expr::Select(select) => !select.test,
        Expr::List(_) => true,
        Expr::Call(call) => [operators::INDEX, operators::CONDITIONAL].contains(&call.func_name.as_str()),
        _ => false,
    }
}

/// Converts a JSON value to CEL, and computes its size.
fn to_cel(value: &Value, size: &mut Size) -> CelValue {
    steps::take(16);
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => CelValue::Int(number),
            None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => {
            steps::take(text.len() / 32);
            size.text(text);
            CelValue::String(Arc::new(text.clone()))
        }
        Value::Array(items) => {
            size.collection(items.len());
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(item, size)).collect()))
        }
        Value::Object(entries) => {
            size.collection(entries.len());
            let entry =
                |(name, value): (&String, &Value)| (Key::String(Arc::new(name.clone())), to_cel(value, size));
            let map: HashMap<Key, CelValue> = entries.iter().map(entry).collect();
            CelValue::Map(Map { map: Arc::new(map) })
        }
    }
}
