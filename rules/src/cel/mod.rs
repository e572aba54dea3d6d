//! CEL, the expression language of Kubernetes: whether an expression parses, and its value for an object.
//!
//! Parser, evaluator and Kubernetes' functions are those of `kube-cel`. It differs in places from cel-go, which the
//! API server uses. So an expression is evaluated only if all its parts are known to behave the same in both
//! ([`expression`]), and is a syntax error only if it has nothing that is known to be parsed differently ([`scan`]).
//! All other expressions are unknown. Types and cost are not checked: the API server does that when it accepts the
//! expression. Neither parser nor evaluator counts steps, so they are estimated from the size of the input before.
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
pub(crate) use expression::{Expression, NumberExpression, syntax_error};
#[cfg(not(feature = "cel"))]
pub(crate) use unknown::{Expression, NumberExpression, syntax_error};
