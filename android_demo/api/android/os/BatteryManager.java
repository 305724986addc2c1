package android.os;

/** API level 21. */
public class BatteryManager {
    public static final String EXTRA_PLUGGED = "plugged";
    public static final String EXTRA_VOLTAGE = "voltage";
    public static final int BATTERY_PROPERTY_CURRENT_NOW = 2;

    BatteryManager() {}

    public native long getLongProperty(int id);
}
