//! The state machine of the Secret: what it should hold, given what it holds and the time.
//!
//! ```text
//!            create CA, issue                        CA is due: create a new one
//!   Empty ─────────────────────────────► Steady ─────────────────────────────┐
//!     │                                    ▲                                 ▼
//!     │ a previous CA signed what is       │ delay is over:              Publishing
//!     │ served: keep serving it            │ the new CA signs                │ both configurations
//!     └──────────► Publishing              └──────────── Trusting ◄──────────┘ contain the new CA
//! ```
//!
//! While publishing and trusting, the previous CA signs what has to be renewed. If it cannot, the new CA
//! signs at once. A CA that is lost, damaged or expired leads back to Empty.
//!
//! The state is not stored as such. It follows from the keys of the Secret, so that a Secret that
//! somebody edited or damaged has a state as well.

use super::data::{CA, CA_KEY, CA_PUBLISHED, CA_SINCE, Ca, KEYS, PreviousCa, SecretData, Serving, seconds};
use super::{CertificateSpec, MakeError};

/// The new data of the Secret; `None` if nothing has to change.
pub(crate) fn plan(
    held: &SecretData,
    spec: &CertificateSpec,
    now: i64,
) -> Result<Option<SecretData>, MakeError> {
    let next = State::parse(held, now).next(spec, now)?.write(held);
    Ok((next != *held).then_some(next))
}

/// The data to start from if the Secret was deleted: the served certificate, and its CA as the previous one.
pub(crate) fn after_deletion(held: &SecretData) -> SecretData {
    let mut left = Remains::of(held, PreviousCa::parse(held), Serving::parse(held));
    if let Some(previous) = &mut left.previous {
        previous.deleted = true;
    }
    State::Empty(left).write(held)
}

#[derive(Clone, PartialEq, Eq)]
enum State {
    /// No CA can sign: at the first start, or if the CA was deleted, is damaged, or has expired.
    Empty(Remains),
    /// The CA has issued the served certificate. The previous CA stays in the bundle until it expires, because other
    /// replicas may still serve a certificate issued by it.
    Steady { ca: Ca, published: Option<i64>, serving: Serving, previous: Option<PreviousCa> },
    /// A new CA is added to the webhook configurations.
    Publishing(Rollover),
    /// The new CA has been in both configurations since this time; API servers are reading it.
    Trusting(Rollover, i64),
}

/// The data of a Secret without a CA that can sign.
#[derive(Clone, PartialEq, Eq)]
struct Remains {
    serving: Option<Serving>,
    previous: Option<PreviousCa>,
    /// The serial number of the last CA.
    last_serial: Option<i64>,
}

/// A new CA, the served certificate, and the CA that issued it.
#[derive(Clone, PartialEq, Eq)]
struct Rollover {
    ca: Ca,
    serving: Option<Serving>,
    previous: Option<PreviousCa>,
}

impl State {
    fn parse(data: &SecretData, now: i64) -> State {
        let previous = PreviousCa::parse(data).filter(|previous| !previous.is_over(now));
        let serving = Serving::parse(data);
        let Some(ca) = Ca::parse(data, now) else {
            return State::Empty(Remains::of(data, previous, serving));
        };
        let published = data.number(CA_PUBLISHED);
        match serving {
            Some(serving) if serving.is_issued_by(&ca.certificate) => {
                State::Steady { ca, published, serving, previous }
            }
            serving => {
                let rollover = Rollover { ca, serving, previous };
                match published {
                    Some(since) => State::Trusting(rollover, since),
                    None => State::Publishing(rollover),
                }
            }
        }
    }

    fn next(self, spec: &CertificateSpec, now: i64) -> Result<State, MakeError> {
        let is_published = |ca: &Ca| spec.published.as_deref() == Some(ca.certificate.as_bytes());
        match self {
            State::Empty(left) => left.recover(spec, now),
            State::Steady { ca, published, mut serving, previous } => {
                let published = published.or_else(|| is_published(&ca).then_some(now));
                if let Some(names) = serving.names_to_issue(spec, now) {
                    serving = ca.issue(&names, spec, now)?;
                }
                if !ca.is_due(now) {
                    return Ok(State::Steady { ca, published, serving, previous });
                }
                Ok(State::Publishing(Rollover {
                    ca: Ca::create(Some(ca.since), spec, now)?,
                    serving: Some(serving),
                    previous: Some(ca.into_previous()),
                }))
            }
            State::Publishing(rollover) => {
                let published = is_published(&rollover.ca).then_some(now);
                rollover.next(published, false, spec, now)
            }
            State::Trusting(rollover, since) => {
                let delay = seconds(spec.lifetimes.propagation_delay);
                let trusted = now >= since.saturating_add(delay);
                rollover.next(Some(since), trusted, spec, now)
            }
        }
    }

    /// The Secret for this state. Keys of others are copied from `held`.
    fn write(&self, held: &SecretData) -> SecretData {
        let mut data = held.clone();
        data.0.retain(|key, _| !KEYS.contains(&key.as_str()));
        let (ca, published, serving, previous) = match self {
            State::Empty(left) => (None, None, left.serving.as_ref(), &left.previous),
            State::Steady { ca, published, serving, previous } => {
                (Some(ca), *published, Some(serving), previous)
            }
            State::Publishing(r) => (Some(&r.ca), None, r.serving.as_ref(), &r.previous),
            State::Trusting(r, since) => (Some(&r.ca), Some(*since), r.serving.as_ref(), &r.previous),
        };
        if let Some(ca) = ca {
            ca.write(&mut data);
        } else if let State::Empty(Remains { last_serial: Some(serial), .. }) = self {
            data.set(CA_SINCE, serial.to_string());
        }
        if let Some(at) = published {
            data.set(CA_PUBLISHED, at.to_string());
        }
        if let Some(serving) = serving {
            serving.write(&mut data);
        }
        if let Some(previous) = previous {
            previous.write(&mut data);
        }
        data
    }
}

impl Remains {
    /// Makes the CA of the Secret the previous one if it has issued the served certificate, and drops it otherwise.
    fn of(data: &SecretData, previous: Option<PreviousCa>, serving: Option<Serving>) -> Remains {
        let issuer = data.text(CA).filter(|ca| serving.as_ref().is_some_and(|s| s.is_issued_by(ca)));
        let demoted = issuer.map(|certificate| PreviousCa {
            certificate: certificate.to_owned(),
            key: data.text(CA_KEY).map(str::to_owned),
            deleted: false,
            until: None,
        });
        Remains { serving, previous: demoted.or(previous), last_serial: data.number(CA_SINCE) }
    }

    /// Creates a CA. A certificate issued by the previous CA is served until the new one is trusted.
    fn recover(self, spec: &CertificateSpec, now: i64) -> Result<State, MakeError> {
        let Remains { serving, previous, last_serial } = self;
        let ca = Ca::create(last_serial, spec, now)?;
        let issuer = previous.as_ref().map(|previous| previous.certificate.as_str());
        match serving.filter(|s| s.is_usable(now) && issuer.is_some_and(|ca| s.is_issued_by(ca))) {
            Some(serving) => Ok(State::Publishing(Rollover { ca, serving: Some(serving), previous })),
            None => {
                let serving = ca.issue(&spec.names, spec, now)?;
                Ok(State::Steady { ca, published: None, serving, previous })
            }
        }
    }
}

impl Rollover {
    /// Switches to the new CA if it is trusted, or if nothing else can be served. Otherwise renews the served
    /// certificate with the previous CA if necessary: a rollover may take longer than a serving certificate lives.
    fn next(
        self,
        published: Option<i64>,
        trusted: bool,
        spec: &CertificateSpec,
        now: i64,
    ) -> Result<State, MakeError> {
        let Rollover { ca, mut serving, previous } = self;
        let signer = previous.as_ref().and_then(|p| Some((p.certificate.as_str(), p.signing_key(now)?)));
        let is_usable = serving.as_ref().is_some_and(|serving| serving.is_usable(now));
        if trusted || (!is_usable && signer.is_none()) {
            let serving = ca.issue(&spec.names, spec, now)?;
            let previous = previous.map(|previous| previous.retire(spec, now));
            return Ok(State::Steady { ca, published, serving, previous });
        }
        if let Some((certificate, key)) = signer {
            let names = match &serving {
                Some(serving) => serving.names_to_issue(spec, now),
                None => Some(spec.names.clone()),
            };
            if let Some(names) = names {
                serving = Some(Serving::issue(certificate, key, &names, spec, now)?);
            }
        }
        let rollover = Rollover { ca, serving, previous };
        Ok(match published {
            Some(since) => State::Trusting(rollover, since),
            None => State::Publishing(rollover),
        })
    }
}

#[cfg(test)]
mod tests;
