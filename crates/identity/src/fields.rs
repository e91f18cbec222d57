//! The fields of a certificate that our own rules look at, read from its DER (RFC 5280, section 4.1; RFC 3820).
//!
//! Pure: bytes to values. Signatures, and all of a chain that is no rule of the grid's, are OpenSSL's part (`verify`).

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::der::{self, DerError, Element, Reader};
use crate::dn::Dn;
use crate::proxy::{Language, ProxyInfo};

pub(crate) const OID_PROXY_INFO: &str = "1.3.6.1.5.5.7.1.14";
const OID_DRAFT_PROXY_INFO: &str = "1.3.6.1.4.1.3536.1.222";
pub(crate) const OID_KEY_USAGE: &str = "2.5.29.15";
const OID_SUBJECT_ALT_NAME: &str = "2.5.29.17";
const OID_BASIC_CONSTRAINTS: &str = "2.5.29.19";
pub(crate) const OID_EXTENDED_KEY_USAGE: &str = "2.5.29.37";

/// A certificate has a dozen extensions; many more are an attempt to make us work.
const MAX_EXTENSIONS: usize = 128;

/// What a certificate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    pub subject: Dn,
    pub issuer: Dn,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    /// Whether it may sign certificates (basicConstraints cA).
    pub is_ca: bool,
    /// The keyUsage bits: first byte of the bit string, so 0x80 is digitalSignature.
    pub key_usage: Option<u8>,
    /// extendedKeyUsage as it stands: whether critical, and the DER value.
    pub extended_key_usage: Option<(bool, Vec<u8>)>,
    /// RFC 3820 proxyCertInfo.
    pub proxy_info: Option<ProxyInfo>,
    /// Carries the GT3 draft's proxyCertInfo.
    pub is_draft_proxy: bool,
    /// dNSName entries of subjectAltName.
    pub dns_names: Vec<String>,
    /// iPAddress entries of subjectAltName.
    pub addresses: Vec<IpAddr>,
    /// The subject as it stands, DER.
    pub subject_der: Vec<u8>,
}

impl Fields {
    /// Reads one DER certificate; bytes after it are an error.
    pub fn from_der(bytes: &[u8]) -> Result<Fields, DerError> {
        let mut outer = Reader::new(bytes);
        let certificate = outer.expect(der::SEQUENCE, "a certificate is a sequence")?;
        outer.finish("bytes after the certificate")?;
        let mut parts = certificate.reader();
        let mut tbs = parts.expect(der::SEQUENCE, "no signed part")?.reader();
        tbs.optional(0xa0)?; // version
        tbs.expect(der::INTEGER, "no serial number")?;
        tbs.expect(der::SEQUENCE, "no signature algorithm")?;
        let issuer = Dn::from_name(&tbs.expect(der::SEQUENCE, "no issuer")?)?;
        let mut validity = tbs.expect(der::SEQUENCE, "no validity")?.reader();
        let not_before = time(&validity.next()?)?;
        let not_after = time(&validity.next()?)?;
        let subject_name = tbs.expect(der::SEQUENCE, "no subject")?;
        let mut fields = Fields {
            subject: Dn::from_name(&subject_name)?,
            issuer,
            not_before,
            not_after,
            is_ca: false,
            key_usage: None,
            extended_key_usage: None,
            proxy_info: None,
            is_draft_proxy: false,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            subject_der: der::element(der::SEQUENCE, subject_name.contents),
        };
        tbs.expect(der::SEQUENCE, "no public key")?;
        tbs.optional(0x81)?; // issuerUniqueID
        tbs.optional(0x82)?; // subjectUniqueID
        if let Some(tagged) = tbs.optional(0xa3)? {
            let list = tagged
                .reader()
                .expect(der::SEQUENCE, "extensions are a sequence")?;
            fields.read_extensions(list.reader())?;
        }
        tbs.finish("bytes after the extensions")?;
        Ok(fields)
    }

    fn read_extensions(&mut self, mut list: Reader<'_>) -> Result<(), DerError> {
        let mut seen: Vec<String> = Vec::new();
        while !list.is_empty() {
            let mut extension = list
                .expect(der::SEQUENCE, "an extension is a sequence")?
                .reader();
            let oid_element = extension.next()?;
            let oid = der::oid(&oid_element)?;
            // RFC 5280, section 4.2: a second one could be read differently by somebody else.
            if seen.contains(&oid) || seen.len() == MAX_EXTENSIONS {
                return Err(oid_element.error("an extension stands twice, or there are too many"));
            }
            let critical = extension
                .optional(der::BOOLEAN)?
                .is_some_and(|e| e.contents != [0]);
            let value = extension.expect(der::OCTET_STRING, "an extension without a value")?;
            extension.finish("bytes after an extension")?;
            self.read_extension(&oid, critical, &value)?;
            seen.push(oid);
        }
        Ok(())
    }

    fn read_extension(
        &mut self,
        oid: &str,
        critical: bool,
        value: &Element<'_>,
    ) -> Result<(), DerError> {
        let mut inside = value.reader();
        match oid {
            OID_PROXY_INFO => self.proxy_info = Some(ProxyInfo::read(&mut inside)?),
            OID_DRAFT_PROXY_INFO => self.is_draft_proxy = true,
            OID_KEY_USAGE => {
                let bits = inside.expect(der::BIT_STRING, "keyUsage is a bit string")?;
                self.key_usage = bits.contents.get(1).copied();
            }
            OID_EXTENDED_KEY_USAGE => {
                self.extended_key_usage = Some((critical, value.contents.to_vec()));
            }
            OID_BASIC_CONSTRAINTS => {
                let mut constraints = inside
                    .expect(der::SEQUENCE, "basicConstraints is a sequence")?
                    .reader();
                self.is_ca = constraints
                    .optional(der::BOOLEAN)?
                    .is_some_and(|e| e.contents != [0]);
            }
            OID_SUBJECT_ALT_NAME => {
                let mut names = inside
                    .expect(der::SEQUENCE, "subjectAltName is a sequence")?
                    .reader();
                while !names.is_empty() {
                    let name = names.next()?;
                    match name.tag {
                        0x82 => self.dns_names.push(
                            std::str::from_utf8(name.contents)
                                .ok()
                                .filter(|n| n.bytes().all(|b| b.is_ascii_graphic()))
                                .ok_or_else(|| name.error("a dNSName is not printable ASCII"))?
                                .to_owned(),
                        ),
                        0x87 => self.addresses.push(address(&name)?),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// GT2's proxies have no mark but their name: the issuer's, with `proxy` or `limited proxy` added.
    pub fn is_legacy_proxy(&self) -> bool {
        self.proxy_info.is_none()
            && !self.is_draft_proxy
            && self.subject.is_one_cn_below(&self.issuer)
            && matches!(self.subject.common_name(), Some("proxy" | "limited proxy"))
    }

    pub fn language(&self) -> Option<&Language> {
        self.proxy_info.as_ref().map(|info| &info.language)
    }

    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }
}

fn address(element: &Element<'_>) -> Result<IpAddr, DerError> {
    if let Ok(four) = <[u8; 4]>::try_from(element.contents) {
        return Ok(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(element.contents)
        .map(IpAddr::from)
        .map_err(|_| element.error("an iPAddress has neither 4 nor 16 bytes"))
}

/// UTCTime or GeneralizedTime, in Zulu and with seconds (RFC 5280, section 4.1.2.5).
fn time(element: &Element<'_>) -> Result<SystemTime, DerError> {
    let bad = || element.error("a time is not of the form YYMMDDHHMMSSZ or YYYYMMDDHHMMSSZ");
    let digits = element.contents.strip_suffix(b"Z").ok_or_else(bad)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let number = |range: std::ops::Range<usize>| -> i64 {
        digits
            .get(range)
            .unwrap_or_default()
            .iter()
            .fold(0, |n, b| n * 10 + i64::from(b - b'0'))
    };
    let (year, at) = match (element.tag, digits.len()) {
        (0x17, 12) => {
            let two = number(0..2);
            (if two < 50 { 2000 + two } else { 1900 + two }, 2)
        }
        (0x18, 14) => (number(0..4), 4),
        _ => return Err(bad()),
    };
    let month = number(at..at + 2);
    let day = number(at + 2..at + 4);
    let (hour, minute, second) = (
        number(at + 4..at + 6),
        number(at + 6..at + 8),
        number(at + 8..at + 10),
    );
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(bad());
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(bad());
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.ok_or_else(bad)
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        let rows: &[(u8, &str, u64)] = &[
            (0x17, "700101000000Z", 0),
            (0x17, "000229235959Z", 951_868_799),
            (0x17, "491231235959Z", 2_524_607_999),
            (0x18, "20500101000000Z", 2_524_608_000),
            (0x18, "99991231235959Z", 253_402_300_799),
        ];
        for (tag, text, seconds) in rows {
            let bytes = der::element(*tag, text.as_bytes());
            let element = Reader::new(&bytes).next().unwrap();
            let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(*seconds);
            assert_eq!(time(&element).unwrap(), expected, "{text}");
        }
        for (tag, text) in [
            (0x17, "7001010000Z"),
            (0x18, "20500101000000"),
            (0x17, "701301000000Z"),
        ] {
            let bytes = der::element(tag, text.as_bytes());
            assert!(
                time(&Reader::new(&bytes).next().unwrap()).is_err(),
                "{text}"
            );
        }
    }
}
