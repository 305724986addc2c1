package ai.edgedec.app;

import android.content.Context;
import android.os.Build;
import android.os.PowerManager;

/** Notices that the phone becomes slower because it is hot, or quicker again. */
final class Heat {
    /** Android's THERMAL_STATUS_MODERATE: from here on clocks are lowered. */
    private static final int MODERATE = 2;

    private Heat() {}

    static void watch(Context context, Chat chat) {
        if (Build.VERSION.SDK_INT < 29) return;
        PowerManager power = (PowerManager) context.getSystemService(Context.POWER_SERVICE);
        boolean[] hot = {power.getCurrentThermalStatus() >= MODERATE};
        power.addThermalStatusListener(status -> {
            boolean now = status >= MODERATE;
            if (now != hot[0]) chat.measureAgain(context.getString(now ? R.string.hot : R.string.cooled));
            hot[0] = now;
        });
    }
}
