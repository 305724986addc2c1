package ai.edgedec.app;

import ai.edgedec.core.EnergyMeter;
import android.content.Context;
import android.content.Intent;
import android.content.IntentFilter;
import android.os.BatteryManager;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Reads the battery while a reply is computed. */
final class Battery {
    private static final int EVERY_MS = 250;

    private final Context context;
    private final BatteryManager manager;
    private final EnergyMeter meter = new EnergyMeter();
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    private ScheduledFuture<?> reading;

    Battery(Context context) {
        this.context = context;
        manager = (BatteryManager) context.getSystemService("batterymanager");
    }

    void start() {
        meter.start();
        reading = clock.scheduleAtFixedRate(this::read, 0, EVERY_MS, TimeUnit.MILLISECONDS);
    }

    /** Ends the readings; joules since start(), or NaN. */
    double stop() {
        if (reading != null) reading.cancel(false);
        read();
        return meter.joules();
    }

    /** Amperes of the last reading, or NaN. */
    double amperes() {
        return meter.amperes();
    }

    private void read() {
        Intent state = context.registerReceiver(null, new IntentFilter(Intent.ACTION_BATTERY_CHANGED));
        if (state == null || manager == null) return;
        meter.sample(System.nanoTime(), manager.getLongProperty(BatteryManager.BATTERY_PROPERTY_CURRENT_NOW),
                state.getIntExtra(BatteryManager.EXTRA_VOLTAGE, -1), state.getIntExtra(BatteryManager.EXTRA_PLUGGED, 0) != 0);
    }
}
