//! Reports the errors of schema validation as findings of a rule.

use crate::lint::context::Context;
use crate::object::Object;
use crate::schema::validation::FieldError;

pub(in crate::rules) fn report(object: &Object, errors: Vec<FieldError<'_>>, ctx: &mut Context<'_>) {
    for error in errors {
        let finding = ctx.report(&error.node, error.message);
        if error.at_key {
            finding.at_key();
        }
        if let Some(help) = error.help {
            finding.help(help);
        }
        if let Some((node, message)) = error.related {
            finding.related(object, &node, message);
        }
        if let Some(fix) = error.fix {
            finding.fix(fix);
        }
    }
}
