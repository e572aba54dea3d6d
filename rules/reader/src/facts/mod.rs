//! Grammars of values: quantities, durations, dates, time zones, names, cron schedules. Independent of
//! objects.

pub mod base64;
pub mod cron;
pub mod date;
pub mod duration;
pub mod image;
pub mod names;
pub mod quantity;
pub mod region;
pub mod suggest;
pub mod table;
pub mod text;
pub mod timezone;
pub mod url;
