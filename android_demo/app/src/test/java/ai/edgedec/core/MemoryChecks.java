package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.isTrue;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import java.io.File;

final class MemoryChecks {
    private MemoryChecks() {}

    /** Prints what the app reads in the figures of an engine, which a test compares with what it meant. */
    public static void main(String[] stats) throws Problem {
        MemoryFigures figures = new MemoryFigures(stats[0]);
        System.out.println(figures.used + " " + figures.budget + " " + figures.experts + " " + figures.allExperts);
    }

    static void testTheBudgetIsTheUsersOrHalfOfThePhone(File folder) {
        same(Budget.of(600_000_000, 8_000_000_000L), 600_000_000);
        same(Budget.of(0, 8_000_000_000L), 4_000_000_000L);
    }

    static void testAModelFitsWholeOrReducedOrNot(File folder) {
        same(Budget.fit(3_000, 3_000, 3_000), Budget.Fit.WHOLE);
        same(Budget.fit(2_999, 3_000, 3_000), Budget.Fit.NOT);
        same(Budget.fit(2_999, 3_000, 1_000), Budget.Fit.REDUCED);
        same(Budget.fit(999, 3_000, 1_000), Budget.Fit.NOT);
    }

    static void testMemoryIsWhatTheEngineCounts(File folder) throws Exception {
        String plain = "{\"rss_bytes\":700,\"memory\":{\"budget_bytes\":null},\"reply\":null}";
        MemoryFigures figures = new MemoryFigures(plain);
        same(figures.used + " " + figures.budget + " " + figures.streams(), "700 0 false");
        String streamed = plain.replace("null},", "900},\"experts\":{\"slots\":8,\"total\":40},");
        figures = new MemoryFigures(streamed);
        same(figures.budget + " " + figures.experts + " " + figures.allExperts, "900 8 40");
        isTrue(figures.streams() && !new MemoryFigures(streamed.replace(":8", ":40")).streams(), "fewer places than experts");
        contains(problem(() -> new MemoryFigures(plain.replace("700", "\"x\""))), "rss_bytes is no number");
        contains(problem(() -> new MemoryFigures("{\"rss_bytes\":1}")), "memory is not an object");
    }
}
