package ai.edgedec.app;

import android.app.ActivityManager;
import android.content.Context;

/** Facts of this phone. */
final class Phone {
    private Phone() {}

    /** Bytes of memory that Android has for itself and all apps. */
    static long memory(Context context) {
        ActivityManager.MemoryInfo info = new ActivityManager.MemoryInfo();
        ((ActivityManager) context.getSystemService(Context.ACTIVITY_SERVICE)).getMemoryInfo(info);
        return info.totalMem;
    }
}
