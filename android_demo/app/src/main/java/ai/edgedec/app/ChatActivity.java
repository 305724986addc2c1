package ai.edgedec.app;

import ai.edgedec.core.Incoming;
import ai.edgedec.core.Problem;
import ai.edgedec.core.Settings;
import android.app.Activity;
import android.app.AlertDialog;
import android.content.Intent;
import android.os.Bundle;
import android.view.Menu;
import android.view.MenuItem;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.ListView;
import android.widget.Spinner;
import android.widget.TextView;
import java.util.Arrays;

/** The screen of the conversation. */
public final class ChatActivity extends Activity implements Watcher {
    private Chat chat;
    private MessageList list;
    private TextView status;
    private TextField input;
    private Button send;
    private Button more;

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        chat = App.chat(this);
        setContentView(R.layout.chat);
        status = (TextView) findViewById(R.id.status);
        input = (TextField) findViewById(R.id.input);
        input.onRefused(this::failed);
        send = (Button) findViewById(R.id.send);
        more = (Button) findViewById(R.id.more);
        list = new MessageList(this, chat);
        ((ListView) findViewById(R.id.messages)).setAdapter(list);
        send.setOnClickListener(view -> sendOrStop());
        more.setOnClickListener(view -> chat.goOn());
        if (state == null) takeIn(getIntent());
    }

    @Override
    protected void onNewIntent(Intent intent) {
        takeIn(intent);
    }

    /** Puts text that another app shares into the field, where the user may change it before it is sent. */
    private void takeIn(Intent intent) {
        boolean again = (intent.getFlags() & Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY) != 0;
        if (again || !Intent.ACTION_SEND.equals(intent.getAction())) return;
        try {
            String text = Incoming.shared(intent.getType(), intent.getCharSequenceExtra(Intent.EXTRA_TEXT));
            if (input.getText().length() > 0) input.append("\n");
            input.append(text);
        } catch (Problem problem) {
            failed(problem.text());
        } catch (RuntimeException broken) { // what another app put there cannot be unpacked
            failed(broken.toString());
        }
    }

    @Override
    protected void onStart() {
        super.onStart();
        chat.watch(this);
        changed();
    }

    @Override
    protected void onStop() {
        chat.watch(null);
        chat.keepSession();
        super.onStop();
    }

    private void sendOrStop() {
        if (chat.busy()) {
            chat.stop();
        } else if (!chat.hasModel()) {
            startActivity(new Intent(this, ModelsActivity.class));
        } else {
            String text = input.getText().toString().trim();
            input.setText("");
            chat.send(text);
        }
    }

    @Override
    public void changed() {
        setTitle(chat.hasModel() ? chat.model() : getString(R.string.app_name));
        status.setText(chat.hasModel() || chat.busy() ? chat.status() : getString(R.string.no_model));
        send.setText(chat.busy() ? R.string.stop : chat.hasModel() ? R.string.send : R.string.choose_model);
        more.setVisibility(chat.mayGoOn() ? View.VISIBLE : View.GONE);
        list.notifyDataSetChanged();
    }

    @Override
    public void failed(String text) {
        new AlertDialog.Builder(this).setMessage(text).setPositiveButton(R.string.ok, null).show();
    }

    @Override
    public void replied(String text) {
        status.announceForAccessibility(text);
    }

    @Override
    public void returned(String question) {
        if (input.getText().length() == 0) input.setText(question);
    }

    @Override
    public boolean onCreateOptionsMenu(Menu menu) {
        getMenuInflater().inflate(R.menu.chat, menu);
        return true;
    }

    @Override
    public boolean onOptionsItemSelected(MenuItem item) {
        int id = item.getItemId();
        if (id == R.id.models) startActivity(new Intent(this, ModelsActivity.class));
        else if (id == R.id.new_chat) chat.newChat();
        else if (id == R.id.settings) askSettings();
        return super.onOptionsItemSelected(item);
    }

    private void askSettings() {
        View form = getLayoutInflater().inflate(R.layout.settings, null);
        Settings now = chat.settings();
        EditText memory = (EditText) form.findViewById(R.id.memory);
        EditText context = (EditText) form.findViewById(R.id.context);
        EditText most = (EditText) form.findViewById(R.id.max_tokens);
        Spinner drafts = (Spinner) form.findViewById(R.id.drafts);
        String[] values = getResources().getStringArray(R.array.draft_values);
        memory.setText(String.valueOf(now.memory / 1_000_000));
        context.setText(String.valueOf(now.context));
        most.setText(String.valueOf(now.maxTokens));
        drafts.setSelection(Math.max(0, Arrays.asList(values).indexOf(now.drafts)));
        new AlertDialog.Builder(this).setTitle(R.string.settings).setView(form).setNegativeButton(R.string.cancel, null)
                .setPositiveButton(R.string.ok, (dialog, which) -> chat.change(new Settings(number(memory) * 1_000_000L,
                        values[drafts.getSelectedItemPosition()], number(context), number(most))))
                .show();
    }

    /** A field has digits only, seven at most; an empty one counts as 0. */
    private static int number(EditText field) {
        String digits = field.getText().toString();
        return digits.isEmpty() ? 0 : Integer.parseInt(digits);
    }
}
