package silf.jpop.ga;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import silf.jpop.Damaged;
import silf.jpop.Numbers;
import silf.jpop.PersonFailed;

/**
 * One population, as values: generation by generation, those who come and go, and all of it as bytes (spec/jpop G1). No thread,
 * clock or network: what it does follows from its seed and from who came when.
 *
 * @param <G> an individual
 */
final class Island<G> {
    /** Of one individual, as bytes: a permutation of a million. */
    static final int INDIVIDUAL_MOST_bytes = 8 << 20;

    /** One of the population. */
    record Member<G>(G individual, double cost) {}

    private final Evolution<G> how;
    private final Seeded random;
    /** By cost; of the same cost the older first. */
    private List<Member<G>> members = new ArrayList<>();
    private long generation;

    private Island(Evolution<G> how, Seeded random) {
        this.how = how;
        this.random = random;
    }

    /** A first population. */
    static <G> Island<G> first(Evolution<G> how, String place) throws PersonFailed {
        Island<G> island = new Island<>(how, Seeded.of(how.seed(), place));
        for (int i = 0; i < how.population(); i++) {
            G made = island.person("individuals", how.individuals(), "random", null, () -> how.individuals().random(island.random));
            island.members.add(island.member(made));
        }
        island.order();
        return island;
    }

    long generation() {
        return generation;
    }

    Member<G> best() {
        return members.get(0);
    }

    double mean() {
        return members.stream().mapToDouble(Member::cost).average().orElse(0);
    }

    double deviation() {
        double mean = mean();
        return Math.sqrt(members.stream().mapToDouble(m -> (m.cost - mean) * (m.cost - mean)).average().orElse(0));
    }

    boolean isDone() {
        return generation >= how.generations() || best().cost <= how.target();
    }

    /** Breeds the next generation. */
    void step() throws PersonFailed {
        double[] costs = members.stream().mapToDouble(Member::cost).toArray();
        List<Member<G>> next = new ArrayList<>(members.subList(0, how.elite()));
        while (next.size() < how.population()) {
            G one = parent(costs);
            G other = parent(costs);
            G child = person("crossover", how.crossover(), "cross", one, () -> how.crossover().cross(one, other, random));
            next.add(member(person("mutation", how.mutation(), "mutate", child, () -> how.mutation().mutate(child, random))));
        }
        members = next;
        generation++;
        order();
    }

    private G parent(double[] costs) throws PersonFailed {
        int picked = person("selection", how.selection(), "pick", null, () -> how.selection().pick(costs, random));
        if (picked < 0 || picked >= costs.length) {
            throw new PersonFailed(how.selection().getClass().getName() + ".pick gave " + picked + " where there are " + costs.length);
        }
        return members.get(picked).individual;
    }

    private Member<G> member(G individual) throws PersonFailed {
        double cost = person("individuals", how.individuals(), "cost", individual, () -> how.individuals().cost(individual));
        if (Double.isNaN(cost)) {
            throw new PersonFailed(how.individuals().getClass().getName() + ".cost is NaN of " + PersonFailed.shown(() -> how.individuals().show(individual)));
        }
        return new Member<>(individual, cost);
    }

    private interface Part<T> {
        T get();
    }

    /** Calls what a person wrote; what it throws is said with the class and what it was given. */
    private <T> T person(String role, Object of, String method, G given, Part<T> call) throws PersonFailed {
        T made;
        try {
            made = call.get();
        } catch (RuntimeException | StackOverflowError e) {
            throw new PersonFailed(said(role, of, method, given) + " threw " + e, e);
        }
        if (made == null) {
            throw new PersonFailed(said(role, of, method, given) + " gave null");
        }
        return made;
    }

    private String said(String role, Object of, String method, G given) {
        return of.getClass().getName() + "." + method + " (" + role + ") in generation " + generation
                + (given == null ? "" : " of " + PersonFailed.shown(() -> how.individuals().show(given)));
    }

    private void order() {
        members.sort(Comparator.comparingDouble(Member::cost)); // stable
    }

    // -- those who travel --------------------------------------------------------------------------------------------

    /** Copies of the best, as bytes. */
    byte[] emigrants(int count) {
        return coded(members.subList(0, Math.min(count, members.size())), how.individuals());
    }

    /** They take the places of the worst; who is here already is not taken twice. */
    void immigrants(byte[] coded) throws Damaged {
        List<Member<G>> come = new ArrayList<>();
        for (Member<G> each : members(new Numbers(coded), how)) {
            boolean known = members.stream().anyMatch(m -> m.cost == each.cost);
            if (!known && come.size() < how.population() - how.elite()) {
                come.add(each);
            }
        }
        members = new ArrayList<>(members.subList(0, members.size() - come.size()));
        members.addAll(come);
        order();
    }

    static <G> byte[] coded(List<Member<G>> which, Individuals<G> individuals) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Numbers.put(out, which.size());
        for (Member<G> each : which) {
            Numbers.putBits(out, Double.doubleToLongBits(each.cost));
            ByteArrayOutputStream one = new ByteArrayOutputStream();
            individuals.write(one, each.individual);
            Numbers.put(out, one.size());
            out.writeBytes(one.toByteArray());
        }
        return out.toByteArray();
    }

    static <G> List<Member<G>> members(Numbers in, Evolution<G> how) throws Damaged {
        int count = in.count(Evolution.POPULATION_MOST, 9, "individuals");
        List<Member<G>> members = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            double cost = Double.longBitsToDouble(in.bits());
            Numbers one = new Numbers(in.take(in.count(INDIVIDUAL_MOST_bytes, 1, "bytes of an individual")));
            if (Double.isNaN(cost)) {
                throw in.damaged("a cost that is no number");
            }
            members.add(new Member<>(how.individuals().read(one), cost));
            one.end();
        }
        return members;
    }

    /** All of it. */
    byte[] state() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Numbers.put(out, generation);
        Numbers.putBits(out, random.state());
        out.writeBytes(coded(members, how.individuals()));
        return out.toByteArray();
    }

    /** Goes on from a state: what follows is what would have followed. */
    static <G> Island<G> of(Evolution<G> how, byte[] state) throws Damaged {
        Numbers in = new Numbers(state);
        long generation = in.number();
        Island<G> island = new Island<>(how, new Seeded(in.bits()));
        island.generation = generation;
        island.members = members(in, how);
        in.end();
        if (island.members.size() != how.population()) {
            throw in.damaged(island.members.size() + " individuals where a population has " + how.population());
        }
        for (int i = 1; i < island.members.size(); i++) {
            if (island.members.get(i - 1).cost > island.members.get(i).cost) {
                throw in.damaged("individual " + i + " costs less than the one before");
            }
        }
        return island;
    }
}
