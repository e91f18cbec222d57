package silf.jojo.launch;

import java.util.List;
import silf.jojo.launch.LaunchException.Why;
import silf.jojo.testkit.Check;

/** What failed starts say, and what is read from it. The words are those of OpenSSH 9, dash, and OpenJDK 8 to 25. */
public final class DiagnosisTest {
    private static final String NONCE = "0123456789abcdef";

    private record Row(String stray, String said, int status, Why why) {}

    private static final List<Row> ROWS = List.of(
            new Row("Welcome!\njojo-" + NONCE + " no-java\n", "", 1, Why.NO_JAVA),
            new Row("no newlinejojo-" + NONCE + " no-place\n", "", 1, Why.NO_PLACE),
            new Row("jojo-" + NONCE + " no-space\n", "", 1, Why.NO_SPACE),
            new Row("jojo-" + NONCE + " old-java 11.0.2\n", "", 1, Why.OLD_JAVA),
            new Row("jojo-fedcba9876543210 no-java\n", "", 3, Why.ENDED),
            new Row("", "ssh: Could not resolve hostname pad99: Name or service not known\r\n", 255, Why.UNKNOWN_HOST),
            new Row("", "ssh: connect to host 10.0.0.1 port 22: No route to host\r\n", 255, Why.NO_ROUTE),
            new Row("", "ssh: connect to host 10.0.0.1 port 22: Connection refused\r\n", 255, Why.NO_ROUTE),
            new Row("", "ssh: connect to host 10.0.0.1 port 22: Connection timed out\r\n", 255, Why.NO_ROUTE),
            new Row("", "No ED25519 host key is known for x and you have requested strict checking.\r\nHost key verification failed.\r\n", 255, Why.HOST_KEY),
            new Row("", "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n", 255, Why.HOST_KEY),
            new Row("", "me@pad00: Permission denied (publickey,password).\r\n", 255, Why.NOT_ADMITTED),
            new Row("", "kex_exchange_identification: read: Connection reset by peer\r\n", 255, Why.TURNED_AWAY),
            new Row("", "Connection closed by 10.0.0.1 port 22\r\n", 255, Why.TURNED_AWAY),
            new Row("", "Exception in thread \"main\" java.lang.UnsupportedClassVersionError: silf/jojo/boot/Boot\n", 1, Why.OLD_JAVA),
            new Row("", "Unrecognized option: -Xbogus\nError: Could not create the Java Virtual Machine.\n", 1, Why.JVM_REFUSED),
            new Row("", "Error occurred during initialization of VM\nCould not reserve enough space for object heap\n", 1, Why.JVM_REFUSED),
            new Row("", "Error: Could not find or load main class silf.jojo.boot.Boot\n", 1, Why.DAMAGED),
            new Row("", "sh: 1: exec: /opt/java: Permission denied\n", 126, Why.NO_JAVA),
            new Row("", "sh: not found\n", 127, Why.NO_COMMAND),
            new Row("", "", -1, Why.SILENT),
            new Row("", "", 255, Why.TURNED_AWAY),
            new Row("", "something new\n", 255, Why.NO_ROUTE),
            new Row("", "something new\n", 7, Why.ENDED));

    public void each_way_to_fail_is_told_apart() {
        for (Row row : ROWS) {
            Check.equal(row.why(), Diagnosis.of(NONCE, row.stray(), row.said(), row.status()).why(), row.toString());
        }
    }

    public void the_version_of_an_old_java_is_told() {
        Diagnosis told = Diagnosis.of(NONCE, "jojo-" + NONCE + " old-java 11.0.2\n", "", 1);
        Check.that(told.what().contains("11.0.2"), told.what());
    }
}
