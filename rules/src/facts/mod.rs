//! Grammars of values: quantities, durations, dates, time zones, names, cron schedules. Independent of
//! objects.

pub mod cron;
pub mod date;
pub mod duration;
pub(crate) mod image;
pub mod names;
pub mod quantity;
pub mod region;
pub mod suggest;
pub(crate) mod table;
pub mod text;
pub mod timezone;
pub(crate) mod url;
