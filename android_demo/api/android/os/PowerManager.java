package android.os;

/** API level 29. */
public final class PowerManager {
    private PowerManager() {}

    public interface OnThermalStatusChangedListener {
        void onThermalStatusChanged(int status);
    }

    public native void addThermalStatusListener(OnThermalStatusChangedListener listener);

    public native int getCurrentThermalStatus();
}
