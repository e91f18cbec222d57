"""python-ldap, unmodified, against the LDAP door: URL, number of hosts, file of the authority. Prints "ready" once its
persistent search is under way, then each change that it is told of."""

import sys

import ldap
import ldap.filter
import ldap.schema
from ldap.controls import SimplePagedResultsControl
from ldap.controls.psearch import PersistentSearchControl

URL, HOSTS, CA = sys.argv[1], int(sys.argv[2]), sys.argv[3]
BASE = "mds-vo-name=local,o=grid"
HOST3 = "Mds-Host-hn=host3.example," + BASE


def connect():
    door = ldap.initialize(URL)
    door.protocol_version = 3
    door.network_timeout = door.timeout = 60
    return door


def refused(kind, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except kind:
        return
    raise AssertionError(f"{call.__name__}{arguments}: not {kind.__name__}")


door = connect()
door.simple_bind_s()

# What a search finds is text in bytes under the names of the schema, whatever case they were asked in.
[(dn, found)] = door.search_s(HOST3, ldap.SCOPE_BASE, "(objectClass=MdsHost)", ["MDS-CPU-TOTAL-COUNT"])
assert ldap.dn.explode_dn(dn)[0] == "Mds-Host-hn=host3.example", dn
assert found == {"Mds-Cpu-Total-count": [b"3"]}, found
many = door.search_s(BASE, ldap.SCOPE_ONELEVEL, "(&(objectClass=MdsHost)(Mds-Cpu-Total-count>=30))", ["1.1"])
assert len(many) == HOSTS - 30, many
escaped = ldap.filter.filter_format("(Mds-Host-hn=%s)", ["host*(\\)"])
assert door.search_s(BASE, ldap.SCOPE_SUBTREE, escaped) == []
assert door.compare_s(HOST3, "Mds-Cpu-Total-count", b"3")
assert not door.compare_s(HOST3, "Mds-Cpu-Total-count", b"4")

# Errors are those that it has classes for.
refused(ldap.NO_SUCH_OBJECT, door.search_s, "mds-vo-name=nowhere,o=grid", ldap.SCOPE_BASE)
refused(ldap.SIZELIMIT_EXCEEDED, door.search_ext_s, BASE, ldap.SCOPE_SUBTREE, sizelimit=5)
refused(ldap.INVALID_DN_SYNTAX, door.search_s, "nonsense", ldap.SCOPE_BASE)
refused(ldap.LDAPError, door.delete_s, HOST3)
refused(ldap.LDAPError, door.simple_bind_s, "cn=admin", "secret")
door.simple_bind_s()

# Pages.
page = SimplePagedResultsControl(True, size=7, cookie="")
seen = []
while True:
    asked = door.search_ext(BASE, ldap.SCOPE_SUBTREE, "(objectClass=MdsHost)", ["1.1"], serverctrls=[page])
    _, entries, _, controls = door.result3(asked)
    assert len(entries) <= 7, entries
    seen += [dn for dn, _ in entries]
    [told] = [c for c in controls if c.controlType == page.controlType]
    page.cookie = told.cookie
    if not page.cookie:
        break
assert len(seen) == len(set(seen)) == HOSTS, seen

# The schema, found as python-ldap finds it.
subentry, schema = ldap.schema.urlfetch(URL)
assert subentry, "no subschemaSubentry"
host = schema.get_obj(ldap.schema.ObjectClass, "MdsHost")
assert host.oid == "1.3.6.1.4.1.3536.2.6.1.1", host
count = schema.get_obj(ldap.schema.AttributeType, "mds-cpu-total-count")
assert count.ordering == "integerOrderingMatch" and count.single_value, count

# TLS begun later, the server's certificate verified.
safe = connect()
safe.set_option(ldap.OPT_X_TLS_CACERTFILE, CA)
safe.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
safe.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
safe.start_tls_s()
assert len(safe.search_s(HOST3, ldap.SCOPE_BASE)) == 1

# Changes as they happen; an abandoned search ends there.
watch = PersistentSearchControl(changeTypes=["add", "delete", "modify"], changesOnly=True, returnECs=True)
asked = door.search_ext(BASE, ldap.SCOPE_SUBTREE, "(Mds-Cpu-Total-count>=39)", ["kumiko-load-1min"], serverctrls=[watch])
# One connection's requests are taken in order: what is answered now came after the watch had begun.
assert len(door.search_s(HOST3, ldap.SCOPE_BASE)) == 1
print("ready", flush=True)
for _ in range(2):
    _, entries, _, _, _, _ = door.result4(asked, all=0, add_ctrls=1)
    for dn, values, controls in entries:
        kinds = [c.changeType for c in controls]
        print(ldap.dn.explode_dn(dn, notypes=True)[0], kinds, values, flush=True)
door.abandon(asked)
assert len(door.search_s(HOST3, ldap.SCOPE_BASE)) == 1
door.unbind_s()
print("end", flush=True)
