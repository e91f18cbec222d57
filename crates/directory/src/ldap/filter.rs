//! The BER form of filters (RFC 4511, section 4.5.1.7). Not here: what they mean (`crate::filter`, `search`).

use super::request::{LdapError, lossy};
use crate::ber::{self, Reader};
use crate::filter::{Assertion, FILTER_DEPTH_MOST, FILTER_ITEMS_MOST, Filter, description};

/// Reads one filter.
pub(super) fn read(fields: &mut Reader<'_>) -> Result<Filter, LdapError> {
    let mut left = FILTER_ITEMS_MOST;
    filter(fields, 0, &mut left)
}

fn filter(fields: &mut Reader<'_>, depth: usize, left: &mut usize) -> Result<Filter, LdapError> {
    if depth >= FILTER_DEPTH_MOST || *left == 0 {
        return Err(LdapError::FilterTooLarge);
    }
    *left -= 1;
    let (tag, content) = fields.any()?;
    let mut inner = Reader::new(content);
    Ok(match tag {
        0xa0 => Filter::And(list(inner, depth, left)?),
        0xa1 => Filter::Or(list(inner, depth, left)?),
        0xa2 => Filter::Not(Box::new(filter(&mut inner, depth + 1, left)?)),
        0xa3 => pair(inner, Assertion::Equal)?,
        0xa5 => pair(inner, Assertion::AtLeast)?,
        0xa6 => pair(inner, Assertion::AtMost)?,
        0xa8 => pair(inner, Assertion::Approximate)?,
        0x87 => Filter::Item {
            attribute: name(content)?,
            test: Assertion::Present,
        },
        0xa4 => substring(inner)?,
        0xa9 => extensible(inner)?,
        tag => return Err(LdapError::Filter { tag }),
    })
}

fn list(mut inner: Reader<'_>, depth: usize, left: &mut usize) -> Result<Vec<Filter>, LdapError> {
    let mut parts = Vec::new();
    while !inner.is_empty() {
        parts.push(filter(&mut inner, depth + 1, left)?);
    }
    Ok(parts)
}

fn name(bytes: &[u8]) -> Result<String, LdapError> {
    description(ber::text(bytes)?).ok_or(LdapError::Attribute)
}

fn pair(mut inner: Reader<'_>, test: fn(String) -> Assertion) -> Result<Filter, LdapError> {
    Ok(Filter::Item {
        attribute: name(inner.octets()?)?,
        test: test(lossy(inner.octets()?)),
    })
}

fn substring(mut inner: Reader<'_>) -> Result<Filter, LdapError> {
    let attribute = name(inner.octets()?)?;
    let mut parts = inner.sequence()?;
    let (mut initial, mut any, mut last) = (None, Vec::new(), None);
    while !parts.is_empty() {
        let (tag, content) = parts.any()?;
        let part = lossy(content);
        match tag {
            0x80 if initial.is_none() && any.is_empty() && last.is_none() => initial = Some(part),
            0x81 if last.is_none() => any.push(part),
            0x82 if last.is_none() => last = Some(part),
            tag => return Err(LdapError::Filter { tag }),
        }
    }
    if initial.is_none() && any.is_empty() && last.is_none() {
        return Err(LdapError::Filter { tag: 0xa4 });
    }
    Ok(Filter::Item {
        attribute,
        test: Assertion::Substring { initial, any, last },
    })
}

fn extensible(mut inner: Reader<'_>) -> Result<Filter, LdapError> {
    let (mut rule, mut attribute, mut value, mut dn) = (None, None, None, false);
    while !inner.is_empty() {
        let (tag, content) = inner.any()?;
        match tag {
            0x81 => rule = Some(name(content)?),
            0x82 => attribute = Some(name(content)?),
            0x83 => value = Some(lossy(content)),
            0x84 => dn = ber::boolean(content)?,
            tag => return Err(LdapError::Filter { tag }),
        }
    }
    if rule.is_none() && attribute.is_none() {
        return Err(LdapError::Attribute);
    }
    Ok(Filter::Extensible {
        attribute,
        rule,
        dn,
        value: value.ok_or(LdapError::Filter { tag: 0xa9 })?,
    })
}
