package silf.jojo.config;

import silf.jojo.config.NodeSpec.FaultPolicy;
import silf.jojo.testkit.Check;

/** What a policy counts. */
public final class FaultPolicyTest {
    public void pauses_before_starts_double_up_to_half_a_minute() {
        FaultPolicy policy = new FaultPolicy(FaultPolicy.Kind.RESTART, 100, 60_000, 100);
        long[] pauses_ms = {100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000};
        for (int before = 0; before < pauses_ms.length; before++) {
            Check.equal(pauses_ms[before], policy.pause_ms(before), "pause after " + before + " starts");
        }
        Check.equal(30_000L, policy.pause_ms(1_000_000), "pause after very many");
        Check.equal(0L, new FaultPolicy(FaultPolicy.Kind.RESTART, 5, 60_000, 0).pause_ms(9), "none");
    }
}
