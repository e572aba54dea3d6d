//! CEL, the expression language of Kubernetes: whether an expression parses, and what it gives for a value.
//!
//! Parser, evaluator and Kubernetes' functions are those of `kube-cel`. It differs from cel-go, which the API server
//! uses, in places; so an expression is evaluated only if all of it is on the list of what both do alike
//! ([`expression`]), and is a syntax error only if nothing in it is known to be parsed differently ([`scan`]).
//! Everything else is unknown. Types and cost are not checked: the API server does that where it takes the expression.
//! Neither parser nor evaluator counts steps, so that those are counted by the size of what they are given, before.
//!
//! Without the feature `cel` every expression is unknown.

#[cfg(feature = "cel")]
mod expression;
#[cfg(feature = "cel")]
mod functions;
#[cfg(feature = "cel")]
mod scan;
#[cfg(not(feature = "cel"))]
mod unknown;
#[cfg(feature = "cel")]
mod work;

#[cfg(feature = "cel")]
pub(crate) use expression::{Expression, syntax_error};
#[cfg(not(feature = "cel"))]
pub(crate) use unknown::{Expression, syntax_error};
