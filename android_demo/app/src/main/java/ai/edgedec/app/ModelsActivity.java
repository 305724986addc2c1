package ai.edgedec.app;

import ai.edgedec.core.BundleStore;
import ai.edgedec.core.Downloader;
import ai.edgedec.core.FileList;
import ai.edgedec.core.LineBroken;
import ai.edgedec.core.Model;
import ai.edgedec.core.ModelList;
import ai.edgedec.core.Problem;
import ai.edgedec.core.Units;
import android.app.Activity;
import android.app.AlertDialog;
import android.content.ActivityNotFoundException;
import android.content.ClipData;
import android.content.ClipboardManager;
import android.content.Intent;
import android.net.Uri;
import android.os.Bundle;
import android.text.InputType;
import android.view.View;
import android.widget.EditText;
import android.widget.ListView;
import android.widget.ProgressBar;
import android.widget.TextView;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;

/** The screen of the models: use, check or remove one that is here; take in a folder, or fetch one. */
public final class ModelsActivity extends Activity implements Transfer.Watcher {
    private static final int PICK = 1;
    private static final int PAUSE_MS = 1000;
    private static final String OPEN_TREE = "android.intent.action.OPEN_DOCUMENT_TREE";

    private final Transfer transfer = Transfer.ONLY;
    private List<Model> listed = new ArrayList<>();
    private List<File> models;
    private BundleStore store;
    private ModelRows rows;

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        setContentView(R.layout.models);
        store = App.chat(this).store;
        rows = new ModelRows(this);
        ListView list = (ListView) findViewById(R.id.list);
        list.setAdapter(rows);
        list.setOnItemClickListener((parent, view, at, id) -> {
            if (rows.row(at).here != null) ask(rows.row(at).here.folder);
            else tell(rows.row(at).toTake, rows.row(at).line);
        });
        try (InputStream in = getAssets().open("models.json")) {
            listed = Model.listed(BundleStore.readList(in, "models.json"));
        } catch (IOException | Problem missing) { // an app that was built without it shows what is here
            failed(getString(R.string.no_list, missing.getMessage()));
        }
        findViewById(R.id.folder).setOnClickListener(view -> pick());
        findViewById(R.id.fetch).setOnClickListener(view -> askAddress());
        findViewById(R.id.stop).setOnClickListener(view -> transfer.stop());
    }

    @Override
    protected void onStart() {
        super.onStart();
        transfer.watch(this);
        changed();
    }

    @Override
    protected void onStop() {
        transfer.watch(null);
        super.onStop();
    }

    @Override
    public void changed() {
        boolean running = transfer.running();
        List<File> now = store.models();
        if (!now.equals(models)) {
            models = now;
            long budget = App.chat(this).budget();
            rows.show(new ModelList(listed, models, budget), budget);
        }
        TextView line = (TextView) findViewById(R.id.transfer);
        line.setText(!running || transfer.total() == 0 ? transfer.line() : getString(R.string.coming, transfer.name(),
                Units.bytes(transfer.done()), Units.bytes(transfer.total())));
        ProgressBar bar = (ProgressBar) findViewById(R.id.progress);
        bar.setIndeterminate(transfer.total() == 0);
        if (transfer.total() > 0) bar.setProgress((int) (1000.0 * transfer.done() / transfer.total()));
        bar.setVisibility(running ? View.VISIBLE : View.GONE);
        findViewById(R.id.stop).setVisibility(running ? View.VISIBLE : View.GONE);
        findViewById(R.id.folder).setEnabled(!running);
        findViewById(R.id.fetch).setEnabled(!running);
    }

    @Override
    public void failed(String text) {
        new AlertDialog.Builder(this).setMessage(text).setPositiveButton(R.string.ok, null).show();
    }

    private void ask(File model) {
        String[] acts = {getString(R.string.use), getString(R.string.check), getString(R.string.remove)};
        new AlertDialog.Builder(this).setTitle(model.getName()).setItems(acts, (dialog, which) -> {
            if (which == 0) use(model);
            else if (which == 1) check(model);
            else askToRemove(model);
        }).show();
    }

    /** Says how a model gets here. */
    private void tell(Model model, String fit) {
        String text = getString(R.string.how_to_take, model.title, model.goodFor, fit, model.commands(), model.name);
        new AlertDialog.Builder(this).setTitle(model.name).setMessage(text).setNegativeButton(R.string.cancel, null)
                .setNeutralButton(R.string.copy, (dialog, which) -> copy(model.commands()))
                .setPositiveButton(R.string.fetch, (dialog, which) -> askAddress()).show();
    }

    private void copy(String commands) {
        ClipboardManager clipboard = (ClipboardManager) getSystemService(CLIPBOARD_SERVICE);
        clipboard.setPrimaryClip(ClipData.newPlainText(getString(R.string.copy), commands));
    }

    private void use(File model) {
        App.chat(this).use(model.getName());
        finish();
    }

    private void check(File model) {
        String checking = getString(R.string.checking, model.getName());
        String whole = getString(R.string.whole, model.getName());
        transfer.start(progress -> {
            progress.of(checking, 0);
            store.verify(model, progress);
            return whole;
        });
    }

    private void askToRemove(File model) {
        if (App.chat(this).model().equals(model.getName())) {
            failed(getString(R.string.removed_in_use));
            return;
        }
        new AlertDialog.Builder(this).setMessage(getString(R.string.remove_question, model.getName()))
                .setNegativeButton(R.string.cancel, null)
                .setPositiveButton(R.string.remove, (dialog, which) -> transfer.start(progress -> {
                    store.remove(model);
                    return "";
                })).show();
    }

    private void pick() {
        try {
            startActivityForResult(new Intent(OPEN_TREE), PICK);
        } catch (ActivityNotFoundException error) {
            failed(error.getMessage());
        }
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        if (request != PICK || result != RESULT_OK || data == null || data.getData() == null) return;
        Uri tree = data.getData();
        android.content.ContentResolver resolver = getApplicationContext().getContentResolver();
        transfer.start(progress -> takeIn(resolver, tree, progress));
    }

    private String takeIn(android.content.ContentResolver resolver, Uri uri, Transfer progress) throws Problem {
        Tree tree = new Tree(resolver, uri);
        String name = tree.listName();
        try (InputStream in = tree.open(name, 0)) {
            String text = BundleStore.readList(in, name);
            FileList list = FileList.parse(name, text);
            progress.of(list.model, list.bytes);
            return store.take(list, name, text, tree, progress).getName();
        } catch (LineBroken shorter) {
            throw new Problem(shorter.getMessage(), "export the model again");
        } catch (IOException error) {
            throw new Problem(name + " cannot be read: " + error.getMessage(), "choose the folder again");
        }
    }

    private void askAddress() {
        EditText field = new EditText(this);
        field.setInputType(InputType.TYPE_CLASS_TEXT | InputType.TYPE_TEXT_VARIATION_URI);
        field.setHint(R.string.address_hint);
        new AlertDialog.Builder(this).setTitle(R.string.address).setView(field).setNegativeButton(R.string.cancel, null)
                .setPositiveButton(R.string.fetch, (dialog, which) -> fetch(field.getText().toString())).show();
    }

    private void fetch(String address) {
        transfer.start(progress -> new Downloader(address, progress, PAUSE_MS)
                .into(store, list -> progress.of(list.model, list.bytes)).getName());
    }
}
