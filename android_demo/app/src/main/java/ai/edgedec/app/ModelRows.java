package ai.edgedec.app;

import ai.edgedec.core.Budget;
import ai.edgedec.core.Model;
import ai.edgedec.core.ModelList;
import ai.edgedec.core.Units;
import android.app.Activity;
import android.view.View;
import android.view.ViewGroup;
import android.widget.BaseAdapter;
import android.widget.TextView;
import java.util.ArrayList;
import java.util.List;

/** The rows of the models: those that are here, and below a heading those to take. */
final class ModelRows extends BaseAdapter {
    /** A row; one with neither is a heading. */
    static final class Row {
        final String head;
        final String line;
        ModelList.Here here;
        Model toTake;

        Row(String head, String line) {
            this.head = head;
            this.line = line;
        }
    }

    private final Activity activity;
    private final List<Row> rows = new ArrayList<>();

    ModelRows(Activity activity) {
        this.activity = activity;
    }

    /** Shows other models; {@code budget}: bytes that one may take. */
    void show(ModelList list, long budget) {
        rows.clear();
        rows.add(new Row(activity.getString(R.string.on_phone), list.here.isEmpty() ? activity.getString(R.string.no_model) : ""));
        for (ModelList.Here one : list.here) {
            Row row = new Row(one.folder.getName(), one.model == null ? "" : fit(one.model, budget));
            row.here = one;
            rows.add(row);
        }
        rows.add(new Row(activity.getString(R.string.to_take), activity.getString(R.string.may_take, Units.bytes(budget))));
        for (Model one : list.toTake) {
            Row row = new Row(one.name, activity.getString(R.string.size, Units.bytes(one.bytes), fit(one, budget)));
            row.toTake = one;
            rows.add(row);
        }
        notifyDataSetChanged();
    }

    private String fit(Model one, long budget) {
        Budget.Fit fit = one.fit(budget);
        String memory = Units.bytes(fit == Budget.Fit.NOT ? one.least : one.memory);
        if (fit == Budget.Fit.NOT) return activity.getString(R.string.too_large, memory, Units.bytes(budget));
        if (fit == Budget.Fit.REDUCED) return activity.getString(one.experts ? R.string.streams : R.string.shorter, memory);
        return activity.getString(one.known() ? R.string.fits : R.string.weights_fit, memory);
    }

    Row row(int at) {
        return rows.get(at);
    }

    @Override
    public int getCount() {
        return rows.size();
    }

    @Override
    public Object getItem(int at) {
        return rows.get(at);
    }

    @Override
    public long getItemId(int at) {
        return at;
    }

    @Override
    public boolean areAllItemsEnabled() {
        return false;
    }

    @Override
    public boolean isEnabled(int at) {
        return rows.get(at).here != null || rows.get(at).toTake != null;
    }

    @Override
    public int getViewTypeCount() {
        return 2;
    }

    @Override
    public int getItemViewType(int at) {
        return isEnabled(at) ? 1 : 0;
    }

    @Override
    public View getView(int at, View old, ViewGroup parent) {
        int layout = isEnabled(at) ? R.layout.model : R.layout.heading;
        View view = old == null ? activity.getLayoutInflater().inflate(layout, parent, false) : old;
        Row row = rows.get(at);
        ((TextView) view.findViewById(R.id.head)).setText(row.head);
        TextView line = (TextView) view.findViewById(R.id.line);
        line.setText(row.line);
        line.setVisibility(row.line.isEmpty() ? View.GONE : View.VISIBLE);
        return view;
    }
}
