package ai.edgedec.core;

import java.util.ArrayList;
import java.util.List;

/**
 * Energy from samples of the battery's current and voltage, by trapezoids. It is that of the whole phone, screen
 * included. While the phone charges, nothing is known, since the current is the charger's too.
 *
 * Phones differ: most count a discharge below zero, some above, and some give mA where Android's documents say uA.
 */
public final class EnergyMeter {
    /** No phone with its screen on draws less: smaller numbers are mA. */
    private static final double LEAST_MICROAMPERES = 20_000;
    private static final long MOST_GAP_NS = 5_000_000_000L;

    private static final class Sample {
        final long ns;
        final double current;
        final double volts;

        Sample(long ns, double current, double volts) {
            this.ns = ns;
            this.current = current;
            this.volts = volts;
        }
    }

    private final List<Sample> samples = new ArrayList<>();
    private boolean charged;

    public synchronized void start() {
        samples.clear();
        charged = false;
    }

    /** A reading: nanoseconds of any clock, the property CURRENT_NOW, millivolts, and whether a charger is plugged in. */
    public synchronized void sample(long ns, long current, int millivolts, boolean charging) {
        charged |= charging;
        if (current == Long.MIN_VALUE || current == Integer.MIN_VALUE || current == 0 || millivolts <= 0) return;
        samples.add(new Sample(ns, Math.abs((double) current), millivolts / 1e3));
    }

    /** Joules since start(); NaN where they are not known. */
    public synchronized double joules() {
        if (charged || samples.size() < 2) return Double.NaN;
        double amperes = 1e-6 * factor();
        double sum = 0;
        for (int i = 1; i < samples.size(); ++i) {
            Sample a = samples.get(i - 1);
            Sample b = samples.get(i);
            if (b.ns <= a.ns || b.ns - a.ns > MOST_GAP_NS) return Double.NaN;
            sum += (a.current * a.volts + b.current * b.volts) / 2 * amperes * (b.ns - a.ns) * 1e-9;
        }
        return sum;
    }

    /** Amperes of the latest sample; NaN where they are not known. */
    public synchronized double amperes() {
        if (charged || samples.isEmpty()) return Double.NaN;
        return samples.get(samples.size() - 1).current * 1e-6 * factor();
    }

    private double factor() {
        double most = 0;
        for (Sample one : samples) most = Math.max(most, one.current);
        return most < LEAST_MICROAMPERES ? 1000 : 1;
    }
}
